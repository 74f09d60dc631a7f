"""Several models by name into a folder of checkpoints, beside a server that reads it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from models import checkpoint as checkpoints
from tests.combinations import slow_but
from tests.stand_in_hub import Repository, StandInHub
from tests.training.importers.marian import folders
from training.__main__ import main
from training.importers import hub_download, model_import
from training.importers.import_progress import LineProgress
from training.importers.marian.convert_checkpoint import MarianConversion
from training.importers.model_import import import_models

NAME = "Helsinki-NLP/opus-mt-de-en"


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def repository(hub: StandInHub, tmp_path: Path) -> Repository:
    return hub.add(NAME, folders.write(tmp_path / "original"))


def imported(into: Path, *arguments: str) -> int:
    return main(["import-marian", *arguments, "--into", str(into)])


def entries(into: Path) -> set[str]:
    return {path.name for path in into.iterdir()}


def test_each_model_gets_a_folder_of_its_name_once(
    hub: StandInHub, repository: Repository, into: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add("someone/en-de-tiny", folders.write(tmp_path / "other", seed=1))
    assert imported(into, "de-en,someone/en-de-tiny") == 0
    assert entries(into) == {"opus-mt-de-en", "en-de-tiny"}
    assert checkpoints.read(into / "opus-mt-de-en").config.training["revision"] == repository.commit
    hub.requests.clear()
    before = (into / "opus-mt-de-en" / "config.json").stat().st_mtime_ns
    for name in ("de-en", NAME, f"https://huggingface.co/{NAME}", "opus-mt-de-en"):
        assert imported(into, name) == 0
        [model] = json.loads(capsys.readouterr().out.splitlines()[-1])["models"]
        assert model == {"model": name, "out": str(into / "opus-mt-de-en"), "imported": False}
    assert hub.requests == [] and (into / "opus-mt-de-en" / "config.json").stat().st_mtime_ns == before


def test_models_go_into_checkpoints_by_default(
    hub: StandInHub, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["import-marian", "de-en"]) == 0
    assert entries(tmp_path / "checkpoints") == {"opus-mt-de-en"}


def test_a_model_that_fails_does_not_hold_up_the_others(
    hub: StandInHub, repository: Repository, into: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(into, "xx-yy", "de-en", "nonsense") == 2
    assert entries(into) == {"opus-mt-de-en"}
    first, second = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert first.startswith("error: nonsense is no model in")
    assert second.startswith("error: The hub has no OPUS-MT model")
    assert imported(into, "opsu-mt-de-en") == 2
    assert "(did you mean opus-mt-de-en?)" in capsys.readouterr().err
    hub.faults.busy = 503
    assert imported(into, "de-en", "fr-en") == os.EX_TEMPFAIL


def test_update_replaces_a_model_whose_repository_has_changed(
    hub: StandInHub, repository: Repository, into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert imported(into, "de-en") == 0
    served = (into / "opus-mt-de-en" / "config.json").open("rb")
    before = checkpoints.read(into / "opus-mt-de-en").config
    assert imported(into, "de-en", "--update") == 0
    assert checkpoints.read(into / "opus-mt-de-en").config == before  # it has not changed
    changed = hub.add(NAME, folders.write(tmp_path / "changed", seed=7))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model_import, "write_conversion", killed)
        assert imported(into, "de-en", "--update") == 130
    assert checkpoints.read(into / "opus-mt-de-en").config == before
    checkpoints.record_stand_ins(into / "opus-mt-de-en", before, {("de", "en"): ("codes",)})  # as a server does
    assert imported(into, "de-en", "--update") == 0
    assert checkpoints.read(into / "opus-mt-de-en").stand_ins == {}
    after = checkpoints.read(into / "opus-mt-de-en").config
    assert (before.training["revision"], after.training["revision"]) == (repository.commit, changed.commit)
    assert before.files["model.safetensors"] != after.files["model.safetensors"]
    assert entries(into) == {"opus-mt-de-en"}
    with served:
        assert json.load(served)["training"]["revision"] == repository.commit  # a server's open file is the old one


def trained(model: Path) -> None:
    """As a run leaves a model."""
    folders.edit(model / "config.json", training={"epochs": 3})
    (model / "config.sha256").unlink()


def tuned(model: Path) -> None:
    folders.edit(model / "config.json", training={"epochs": 3, "from": {"given": NAME}})
    (model / "config.sha256").unlink()


def others(model: Path) -> None:
    folders.edit(model / "config.json", training={"imported_from": "someone/opus-mt-de-en", "revision": "a" * 40})
    (model / "config.sha256").unlink()


def resumed(model: Path) -> None:
    (model / "resume").mkdir()
    (model / "resume" / "state.pt").write_bytes(b"hours")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "trained": (trained, "was trained, not imported: it stays as it is"),
    "tuned": (tuned, f"was tuned from {NAME}: it stays as it is"),
    "of another owner": (others, "was imported from someone/opus-mt-de-en: it stays as it is"),
    "with a run": (resumed, "holds resume, which no import writes: it stays as it is"),
    "with notes": (lambda model: (model / "notes.txt").write_text("mine"), "holds notes.txt, which no import writes"),
    "an edited card": (
        lambda model: (model / "README.md").write_text("# Mine\n"),
        "has been changed since its import (README.md)",
    ),
    "an edited config": (
        lambda model: folders.edit(model / "config.json", max_new_tokens=7),
        "cannot be told from a model of yours",
    ),
    "an edited config without its checksum": (
        lambda model: (model / "config.sha256").unlink(),
        "has been changed since its import (config.json)",
    ),
    "other weights": (
        lambda model: (model / "model.safetensors").write_bytes(b"others"),
        "cannot be told from a model of yours",
    ),
}


@pytest.mark.parametrize(
    "change", slow_but(CHANGES, "trained", "tuned", "with a run", "an edited card", "an edited config")
)
def test_model_of_ones_own_is_never_replaced(
    change: str,
    hub: StandInHub,
    repository: Repository,
    into: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert imported(into, "de-en") == 0
    edit, sentence = CHANGES[change]
    edit(into / "opus-mt-de-en")
    before = contents(into)
    hub.add(NAME, folders.write(tmp_path / "changed", seed=7))
    capsys.readouterr()
    assert imported(into, "de-en", "--update") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: {into}/opus-mt-de-en ") and sentence in error
    assert error.endswith("import de-en under another name, with --out.") and contents(into) == before
    (into / "opus-mt-de-en").rename(into / "kept")  # what the sentence means is possible
    assert imported(into, "de-en", "--update") == 0


def contents(into: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in into.rglob("*") if path.is_file()}


def test_name_of_ones_own_model_with_an_owner_is_no_import_of_it(
    hub: StandInHub, repository: Repository, into: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(into, "de-en") == 0
    (into / "opus-mt-de-en").rename(into / "mine")
    trained(into / "mine")
    hub.add("someone/mine", folders.write(tmp_path / "other", seed=1))
    before = contents(into)
    for update in ((), ("--update",)):
        hub.requests.clear()
        assert imported(into, "someone/mine", *update) == 2
        assert f"error: {into}/mine was trained, not imported: it stays" in capsys.readouterr().err
        assert hub.requests == []
    assert contents(into) == before
    local = folders.write(tmp_path / "mine", seed=2)  # nor does a local folder of its name replace it
    assert imported(into, str(local)) == 2
    assert f"error: {into}/mine was trained, not imported: it stays" in capsys.readouterr().err
    assert contents(into) == before


def test_model_that_is_there_says_where_it_is_from(
    hub: StandInHub, repository: Repository, into: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(into, "de-en") == 0
    for options in ((), ("--update",)):
        capsys.readouterr()
        assert imported(into, NAME, *options) == 0
        there = f"{into}/opus-mt-de-en is there already: it was imported from {NAME} at commit {repository.commit}."
        assert there in capsys.readouterr().err.splitlines()


def test_hub_does_not_choose_the_folder_that_is_written(
    hub: StandInHub, repository: Repository, into: Path, tmp_path: Path
) -> None:
    assert imported(into, "de-en") == 0
    before = contents(into)
    hub.add("someone/x", folders.write(tmp_path / "other", seed=1))
    for name in (NAME, "../../x", "someone/..", "SOMEONE/X"):
        hub.faults.info = lambda said, name=name: {**said, "id": name}
        shutil.rmtree(into / "x", ignore_errors=True)
        assert imported(into, "someone/x", "--update") == 0
        assert entries(into) == {"opus-mt-de-en", "x"}
    after = {path: content for path, content in contents(into).items() if "/opus-mt-de-en/" in path}
    assert after == before


def test_old_model_stays_where_the_new_one_does_not_load(
    hub: StandInHub,
    repository: Repository,
    into: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert imported(into, "de-en") == 0
    before = contents(into)
    hub.add(NAME, folders.write(tmp_path / "changed", seed=7))
    write = model_import.write_conversion

    def write_half(made: MarianConversion, folder: Path) -> None:
        write(made, folder)
        os.truncate(folder / "model.safetensors", 1000)

    monkeypatch.setattr(model_import, "write_conversion", write_half)
    assert imported(into, "de-en", "--update") == 2
    assert "opus-mt-de-en was not imported, since it cannot be loaded: " in capsys.readouterr().err
    assert contents(into) == before


def test_import_that_was_killed_between_two_renames_is_finished(
    hub: StandInHub, repository: Repository, into: Path
) -> None:
    assert imported(into, "de-en") == 0
    (into / "opus-mt-de-en").rename(into / ".opus-mt-de-en.old")
    (into / ".opus-mt-de-en.new").mkdir()
    (into / ".opus-mt-de-en.new" / "model.safetensors").write_bytes(b"half of it")
    assert imported(into, "de-en") == 0
    assert checkpoints.read(into / "opus-mt-de-en").config.training["revision"] == repository.commit


def test_full_disk_is_named_and_leaves_nothing(
    hub: StandInHub,
    repository: Repository,
    into: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for module, written, way in (
        (model_import, "write_conversion", f"{into} cannot be written (disk full): make room for opus-mt-de-en, or"),
        (hub_download, "_fetch_blob", f"The cache {constants.HF_HUB_CACHE} cannot be written (disk full): make room"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, written, fill)
            if module is hub_download:
                patch.setattr(constants, "HF_HUB_CACHE", f"{constants.HF_HUB_CACHE}-2")
                way = way.replace("cache cannot", "cache-2 cannot")
            assert imported(into, "de-en") == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: {way}")
        assert entries(into) == set()
    assert imported(into, "de-en") == 0


@pytest.mark.slow
def test_import_that_was_killed_in_a_file_goes_on_in_it(
    hub: StandInHub, repository: Repository, into: Path, tmp_path: Path
) -> None:
    hub.rate = 100_000  # the weights take seconds
    cache = Path(constants.HF_HUB_CACHE)
    process = subprocess.Popen(
        [sys.executable, "-m", "training", "import-marian", "de-en", "--into", str(into)],
        env={**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_CACHE": str(cache)},
        stderr=subprocess.DEVNULL,
    )
    # huggingface_hub's own parts, of the small files, have names with a number of the process; ours is the digest alone
    digest = "[0-9a-f]" * 64
    while not (part := next(cache.rglob(f"{digest}.incomplete"), None)) or not part.stat().st_size:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    kept, hub.rate = part.stat().st_size, 0
    hub.requests.clear()
    assert imported(into, "de-en") == 0
    [headers] = [headers for method, path, headers in hub.requests if method == "GET" and "/lfs/" in path]
    assert headers["Range"] == f"bytes={kept}-"
    assert checkpoints.read(into / "opus-mt-de-en").config.training["revision"] == repository.commit


def test_two_imports_of_one_model_do_not_meet(
    hub: StandInHub, repository: Repository, into: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into.mkdir()
    with (into / ".opus-mt-de-en.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert imported(into, "de-en") == 2
    assert f"Another process is importing opus-mt-de-en into {into}; wait for it." in capsys.readouterr().err


def test_folders_that_cannot_be_imported_are_refused_in_a_sentence(
    hub: StandInHub, repository: Repository, into: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(into, str(tmp_path / "original")) == 0  # a local folder goes by its own name
    assert entries(into) == {"original"}
    capsys.readouterr()
    t5 = folders.write(tmp_path / "t5")
    folders.edit(t5 / "config.json", model_type="t5")
    pointer = folders.write(tmp_path / "pointer")
    size = (pointer / "model.safetensors").stat().st_size
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize {size}\n"
    (pointer / "model.safetensors").write_text(text, encoding="utf-8")
    sentences = {
        str(t5): "config.json is of a model of type 't5'; import-marian reads only marian and pegasus.",
        str(pointer): f"{pointer}/model.safetensors is a pointer of Git LFS: get the file itself with `git lfs pull`.",
        str(
            into / "original"
        ): f"{into}/original is a checkpoint already: move it into the folder that the server reads.",
        str(tmp_path / "none"): f"There is no folder {tmp_path}/none.",
        "https://huggingface.co/Helsinki-NLP": "https://huggingface.co/Helsinki-NLP is no address of a model's page on"
        f" the hub, such as https://huggingface.co/{NAME}.",
        "": "Name a model to import, such as Helsinki-NLP/opus-mt-de-en or de-en.",
        ",": "Name a model to import, such as Helsinki-NLP/opus-mt-de-en or de-en.",
    }
    for given, sentence in sentences.items():
        assert imported(into, given) == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"error: {sentence}"
    assert entries(into) == {"original"}


def test_progress_for_other_programs_is_a_message_for_each_stage(
    hub: StandInHub, repository: Repository, into: Path
) -> None:
    messages: list[Any] = []
    outcome = import_models(["de-en"], into, LineProgress(messages.append))
    assert list(dict.fromkeys(each["stage"] for each in messages)) == [
        *("look_up", "download", "verify", "convert", "done")
    ]
    last = {each["stage"]: each for each in messages}
    assert last["download"]["bytes"] == last["download"]["total"] > 100_000
    assert outcome.models[0].folder == into / "opus-mt-de-en"
