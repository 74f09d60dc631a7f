"""Fetching a model by its name, from a hub that is slow, broken, strict or away."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from models.model_names import parse_model_name
from tests.stand_in_hub import RepositoryFile, StandInHub
from tests.training.importers.marian import folders
from training.errors import TrainingError
from training.importers.hub_download import HubSnapshot, HubUnreachable, fetch_model

NAME = "Helsinki-NLP/opus-mt-de-en"
WEIGHTS = "model.safetensors"


class RecordedProgress:
    """totals: of the stages in bytes; done: the bytes of each stage that were reported."""

    def __init__(self) -> None:
        self.totals, self.done, self.notes = dict[str, int](), dict[str, int](), list[str]()
        self._stage = ""

    def stage(self, stage: str, name: str, total: int = 0) -> None:
        self._stage, self.totals[stage], self.done[stage] = stage, total, 0

    def advance(self, size: int) -> None:
        self.done[self._stage] += size

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def close(self) -> None:
        pass


@pytest.fixture
def progress() -> RecordedProgress:
    return RecordedProgress()


@pytest.fixture
def model(hub: StandInHub, tmp_path: Path) -> Path:
    folder = folders.write(tmp_path / "original")
    (folder / "tf_model.h5").write_bytes(b"other weights")
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# A model\n", encoding="utf-8")
    hub.add(NAME, folder)
    return folder


def fetched(name: str, progress: RecordedProgress) -> HubSnapshot:
    return fetch_model(parse_model_name(name), ["marian"], progress)


def test_only_needed_files_are_fetched_and_verified(hub: StandInHub, model: Path, progress: RecordedProgress) -> None:
    snapshot = fetched("de-en", progress)
    assert (snapshot.name, snapshot.commit) == (NAME, hub.repositories[NAME].commit)
    names = {path.name for path in model.iterdir()} - {"tf_model.h5"}
    assert set(hub.fetched()) == {path.name for path in snapshot.path.iterdir()} == names
    assert all((snapshot.path / name).read_bytes() == (model / name).read_bytes() for name in names)
    size = sum((model / name).stat().st_size for name in names)
    assert progress.totals == {"look_up": 0, "download": size, "verify": size}
    assert progress.done == progress.totals


def test_second_fetch_takes_the_cache(hub: StandInHub, model: Path, progress: RecordedProgress) -> None:
    first = fetched(NAME, progress)
    hub.requests.clear()
    assert fetched(NAME, progress) == first
    assert hub.fetched() == []
    assert progress.done == progress.totals


def test_pickled_weights_are_fetched_where_there_are_no_others(
    hub: StandInHub, tmp_path: Path, progress: RecordedProgress
) -> None:
    hub.add(NAME, folders.write(tmp_path / "pickled", pickled=True))
    assert (fetched(NAME, progress).path / "pytorch_model.bin").is_file()


@pytest.mark.parametrize("how", ["end", "reset"])
def test_broken_download_goes_on_behind_its_last_byte(
    how: str, hub: StandInHub, model: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.faults.breaks[WEIGHTS] = [(50_000, how)]  # type: ignore[list-item]
    snapshot = fetched(NAME, progress)
    assert (snapshot.path / WEIGHTS).read_bytes() == (model / WEIGHTS).read_bytes()
    [first, second] = [headers for method, path, headers in hub.requests if method == "GET" and "/lfs/" in path]
    start = int(second["Range"].removeprefix("bytes=").rstrip("-"))
    assert "Range" not in first and 0 < start <= 50_000
    assert progress.done["download"] == progress.totals["download"]


@pytest.mark.usefixtures("heeded")
def test_interrupted_download_goes_on_in_the_next_process(
    hub: StandInHub, model: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.rate = 200_000  # the weights would take seconds
    advance = progress.advance

    def interrupt(size: int) -> None:
        advance(size)
        if size > 4096:  # of the weights, of which a block has arrived
            monkeypatch.setattr(progress, "advance", advance)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress, "advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetched(NAME, progress)
    assert not list(Path(constants.HF_HUB_CACHE).rglob(WEIGHTS))
    [part] = Path(constants.HF_HUB_CACHE).rglob(f"{hub.repositories[NAME].files[WEIGHTS].sha256}.incomplete")
    kept, whole = part.stat().st_size, (model / WEIGHTS).stat().st_size
    assert 0 < kept < whole
    hub.rate = 0
    hub.requests.clear()
    snapshot = fetched(NAME, progress)
    assert (snapshot.path / WEIGHTS).read_bytes() == (model / WEIGHTS).read_bytes()
    [headers] = [headers for method, path, headers in hub.requests if method == "GET" and "/lfs/" in path]
    assert headers["Range"] == f"bytes={kept}-"
    assert progress.done["download"] == progress.totals["download"]
    assert not list(Path(constants.HF_HUB_CACHE).rglob("*.incomplete"))


@pytest.mark.parametrize("damage", ["other bytes", "too long"])
def test_damaged_part_of_a_file_is_not_used(
    damage: str, hub: StandInHub, model: Path, progress: RecordedProgress
) -> None:
    content = (model / WEIGHTS).read_bytes()
    repository = hub.repositories[NAME]
    blobs = Path(constants.HF_HUB_CACHE) / "models--Helsinki-NLP--opus-mt-de-en" / "blobs"
    blobs.mkdir(parents=True)
    part = bytes(1000) if damage == "other bytes" else content + b"more"
    (blobs / f"{repository.files[WEIGHTS].sha256}.incomplete").write_bytes(part)
    snapshot = fetched(NAME, progress)
    assert (snapshot.path / WEIGHTS).read_bytes() == content
    assert progress.notes == (
        [f"The checksum of {WEIGHTS} in {NAME} is wrong: fetching it once more."] if damage == "other bytes" else []
    )


def test_server_without_ranges_sends_the_whole_file_again(
    hub: StandInHub, model: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    hub.ranges = False
    hub.faults.breaks[WEIGHTS] = [(50_000, "end")]
    snapshot = fetched(NAME, progress)
    assert (snapshot.path / WEIGHTS).read_bytes() == (model / WEIGHTS).read_bytes()
    assert progress.done["download"] == progress.totals["download"]


def test_mirror_may_name_its_files_otherwise(
    hub: StandInHub, model: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RepositoryFile, "etag", property(lambda file: f"mirror-{file.blob_id}"))
    snapshot = fetched(NAME, progress)
    assert (snapshot.path / WEIGHTS).read_bytes() == (model / WEIGHTS).read_bytes()
    assert hub.fetched().count(WEIGHTS) == 1


def test_wrong_checksum_is_fetched_once_more(hub: StandInHub, model: Path, progress: RecordedProgress) -> None:
    hub.faults.wrong = {WEIGHTS: 1, "vocab.json": 1}
    snapshot = fetched(NAME, progress)
    assert (snapshot.path / WEIGHTS).read_bytes() == (model / WEIGHTS).read_bytes()
    assert (hub.fetched().count(WEIGHTS), hub.fetched().count("vocab.json"), hub.fetched().count("source.spm")) == (
        2,
        2,
        1,
    )
    assert progress.notes == [f"The checksum of {WEIGHTS}, vocab.json in {NAME} is wrong: fetching it once more."]


@pytest.mark.parametrize("file", [WEIGHTS, "source.spm"])  # by SHA-256, and by git's SHA-1
def test_file_with_a_lasting_wrong_checksum_is_refused(
    file: str, hub: StandInHub, model: Path, progress: RecordedProgress
) -> None:
    hub.faults.wrong = {file: 2}
    with pytest.raises(TrainingError, match=f"{file} of {NAME} does not match the checksum"):
        fetched(NAME, progress)
    cached = [path for path in Path(constants.HF_HUB_CACHE).rglob("*") if path.is_file() and not path.is_symlink()]
    wrong = hashlib.sha256((model / file).read_bytes()).hexdigest()
    assert cached and not any(path.name == wrong or path.name == file for path in cached)
    fetched(NAME, progress)  # what was refused is not taken from the cache


def test_unknown_name_gets_the_nearest_ones(hub: StandInHub, model: Path, progress: RecordedProgress) -> None:
    with pytest.raises(TrainingError) as refused:
        fetched("de-xx", progress)
    assert str(refused.value) == (
        "The hub has no OPUS-MT model for de → xx, neither Helsinki-NLP/opus-mt-de-xx nor"
        " Helsinki-NLP/opus-mt-tc-big-de-xx; did you mean Helsinki-NLP/opus-mt-de-en?"
    )
    for wrong in ("Helsinki-NLP/opus-mt-de-enn", "Helsinki-NPL/opus-mt-de-en"):
        with pytest.raises(TrainingError, match=f"no model {wrong}, or it is private .* did you mean {NAME}"):
            fetched(wrong, progress)
    with pytest.raises(TrainingError, match=r"; http://127.0.0.1:\d+/Helsinki-NLP lists those that there are"):
        fetched("fi-sv", progress)
    hub.add("Helsinki-NLP/opus-mt-tc-big-en-pt", model)
    hub.add("Helsinki-NLP/opus-mt-en-fr", model)
    with pytest.raises(TrainingError, match=r"did you mean Helsinki-NLP/opus-mt-tc-big-en-pt"):
        fetched("opus-mt-en-pt", progress)
    assert hub.fetched() == []


def test_pair_without_a_small_model_gets_the_big_one(
    hub: StandInHub, tmp_path: Path, progress: RecordedProgress
) -> None:
    hub.add("Helsinki-NLP/opus-mt-tc-big-en-pt", folders.write(tmp_path / "original"))
    assert fetched("en-pt", progress).name == "Helsinki-NLP/opus-mt-tc-big-en-pt"


def test_model_of_another_type_is_refused_before_its_download(
    hub: StandInHub, model: Path, progress: RecordedProgress
) -> None:
    folders.edit(model / "config.json", model_type="t5")
    with pytest.raises(TrainingError, match=f"^{NAME} is a model of type t5; only marian"):
        fetched(NAME, progress)
    assert hub.fetched() == []


def test_repository_without_weights_is_refused(hub: StandInHub, model: Path, progress: RecordedProgress) -> None:
    (model / WEIGHTS).unlink()
    with pytest.raises(TrainingError, match=r"has neither model\.safetensors nor pytorch_model\.bin on the hub"):
        fetched(NAME, progress)


def test_gated_and_private_models_need_a_token(
    hub: StandInHub, model: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repositories[NAME].access = "gated"
    with pytest.raises(TrainingError, match=r"is gated: accept its terms on .*with an account, and set HF_TOKEN"):
        fetched(NAME, progress)
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(TrainingError, match=r"is gated: .* with the account of your HF_TOKEN"):
        fetched(NAME, progress)
    hub.repositories[NAME].access = "private"
    with pytest.raises(TrainingError, match=f"The hub has no model {NAME};"):
        fetched(NAME, progress)
    monkeypatch.setenv("HF_TOKEN", "hf_bad")
    with pytest.raises(TrainingError, match=r"refuses the token in HF_TOKEN"):
        fetched(NAME, progress)
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert fetched(NAME, progress).name == NAME  # the CDN refuses requests that carry the token


def test_revision_is_a_branch_or_a_commit(hub: StandInHub, model: Path, progress: RecordedProgress) -> None:
    commit = hub.repositories[NAME].commit
    assert fetched(f"{NAME}@{commit}", progress).commit == commit
    with pytest.raises(TrainingError, match=r"has no revision v9"):
        fetched(f"{NAME}@v9", progress)


def test_without_a_network_the_cache_serves(
    hub: StandInHub, model: Path, progress: RecordedProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetched(NAME, progress)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening: connections are refused
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert fetched("de-en", progress) == first
        assert progress.notes[-1].endswith(f"The copy in the cache ({constants.HF_HUB_CACHE}) is used.")
        with pytest.raises(
            HubUnreachable, match=r"cannot be reached for Helsinki-NLP/opus-mt-en-de \(Connection refused\)"
        ):
            fetched("en-de", progress)
        monkeypatch.setenv("HTTP_PROXY", constants.ENDPOINT.replace("//", "//user:secret@"))
        monkeypatch.setattr(constants, "ENDPOINT", "http://hub.example")
        monkeypatch.delenv("NO_PROXY", raising=False)
        huggingface_hub.close_session()
        with pytest.raises(
            HubUnreachable, match=r"hub\.example\) through the proxy 127\.0\.0\.1:\d+ cannot be reached"
        ):
            fetched("en-de", progress)
        monkeypatch.delenv("HTTP_PROXY")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetched(NAME, progress) == first
    with pytest.raises(HubUnreachable, match=r"is not in the cache .* and HF_HUB_OFFLINE is set"):
        fetched("en-de", progress)
    (first.path / WEIGHTS).resolve().write_bytes(b"damaged")
    with pytest.raises(TrainingError, match=f"The checksum of .*{WEIGHTS} is wrong"):
        fetched(NAME, progress)


def test_busy_hub_is_unreachable(hub: StandInHub, model: Path, progress: RecordedProgress) -> None:
    hub.faults.busy = 503
    with pytest.raises(HubUnreachable, match=r"cannot give .* now \(status 503\)"):
        fetched(NAME, progress)
