"""Corpora by name, fetched over real HTTP from a server on the loopback interface that breaks off, moves and lies."""

from __future__ import annotations

import gzip
import io
import logging
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.training.data.corpus_writers import fault
from training.config.run_config import CleaningConfig
from training.data import download, public_data
from training.data.corpus_loading import read_pairs, read_run_corpora

pytest.importorskip("mtdata", reason="extra mtdata brings it")


@dataclass
class Server:
    """files: path -> content. cut: where the next answers break off. requests: path and range."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    cut: list[int] = field(default_factory=list)
    announced: int | None = None
    ranges: bool = True
    tag: str = '"1"'
    requests: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.requests.append((self.path, wanted))
            if self.path in state.moved:
                self.send_response(302)
                self.send_header("Location", state.moved[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if self.path not in state.files:
                self.send_error(404)
                return
            content = state.files[self.path]
            start = 0
            if wanted and state.ranges and self.headers.get("If-Range") == state.tag:
                start = int(wanted.removeprefix("bytes=").partition("-")[0])
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("ETag", state.tag)
            self.send_header("Content-Length", str(state.announced or len(content) - start))
            self.end_headers()
            end = state.cut.pop(0) if state.cut else len(content)
            self.wfile.write(content[start:end])
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.fixture(autouse=True)
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> Path:
    """The cache folder of a test; OPUS is the server."""
    monkeypatch.setenv("TRAINING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MTDATA", str(tmp_path / "mtdata"))
    monkeypatch.setattr(download, "WAIT_S", 0.0)
    monkeypatch.setattr(
        public_data, "OPUS_URL", server.address + "/OPUS-{corpus}/{version}/moses/{first}-{second}.txt.zip"
    )
    return tmp_path / "cache"


PAIRS = [(f"Satz Nummer {i}, für dich.", f"Sentence number {i}, for you.") for i in range(300)]


def archive(first: str = "de", second: str = "en", cut: int = 0) -> bytes:
    """OPUS's form: an archive with one file for each language, and others."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("README", "about")
        opened.writestr(f"Books.{first}-{second}.{first}", "".join(f"{one}\n" for one, _ in PAIRS[cut:]))
        opened.writestr(f"Books.{first}-{second}.{second}", "".join(f"{other}\n" for _, other in PAIRS))
    return data.getvalue()


BOOKS = "/OPUS-Books/v1/moses/de-en.txt.zip"


@pytest.mark.parametrize("name", ["opus:Books/de-en", "opus:books/v1/en-de"])
def test_sides_follow_the_languages_of_the_run(server: Server, name: str) -> None:
    server.files[BOOKS] = archive()
    forward, backward = read_pairs(name, ("de", "en")), read_pairs(name, ("en", "de"))
    assert list(zip(forward.sources, forward.targets, strict=True)) == PAIRS
    assert (forward.sources, forward.targets) == (backward.targets, backward.sources)
    assert read_pairs(name).sources == forward.sources
    assert server.requests == [(BOOKS, None)]  # the second reading took the file from the cache
    assert forward.place(4) == f"{name}:5"
    (origin,) = forward.reported().provenance
    assert f"{server.address}{BOOKS} (de-en.txt.zip sha256 " in origin
    assert "cite Tiedemann 2012, “Parallel Data" in origin
    assert f"  from: {origin}" in list(forward.reported().lines())


def test_a_broken_download_goes_on_where_it_ended(server: Server, setting: Path) -> None:
    server.files[BOOKS] = content = archive()
    server.cut = [500, 1000]
    assert len(read_pairs("opus:Books/de-en", ("de", "en"))) == 300
    assert server.requests == [(BOOKS, None), (BOOKS, "bytes=500-"), (BOOKS, "bytes=1000-")]
    (path,) = setting.glob("downloads/*/*/*.zip")
    assert path.read_bytes() == content
    assert [other.suffix for other in path.parent.iterdir() if other != path] == [".lock"]


def test_a_download_that_ended_with_its_command_goes_on_in_the_next(server: Server) -> None:
    server.files[BOOKS] = archive()
    server.cut = [1500, 1500, 1500, 1500]
    assert fault("opus:Books/de-en", ("de", "en")) == (
        "The download of opus:Books/de-en broke off after 1,500 bytes (the connection ended): run the command again,"
        " and it goes on from there."
    )
    server.requests.clear()
    assert len(read_pairs("opus:Books/de-en", ("de", "en"))) == 300
    assert server.requests == [(BOOKS, "bytes=1500-")]


@pytest.mark.parametrize("change", [{"tag": '"2"'}, {"ranges": False}])
def test_a_file_that_changed_or_has_no_ranges_begins_anew(server: Server, change: dict[str, Any]) -> None:
    server.files[BOOKS] = archive()
    server.cut = [700] * 4
    fault("opus:Books/de-en", ("de", "en"))
    for name, value in change.items():
        setattr(server, name, value)
    assert len(read_pairs("opus:Books/de-en", ("de", "en"))) == 300


def test_redirects_are_followed(server: Server) -> None:
    server.moved[BOOKS], server.files["/there.zip"] = "/there.zip", archive()
    assert len(read_pairs("opus:Books/de-en", ("de", "en"))) == 300


def test_what_cannot_be_downloaded_is_one_sentence(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault("opus:Books/de-en", ("de", "en")) == (
        f"opus:Books/de-en cannot be downloaded: {server.address}{BOOKS} answers 404 Not Found; the data set may have"
        " moved, so look it up at its source and give its files."
    )
    monkeypatch.setattr(public_data, "OPUS_URL", "http://127.0.0.1:9/{corpus}{version}{first}{second}.zip")
    message = fault("opus:Books/de-en", ("de", "en"))
    assert message.startswith(
        "opus:Books/de-en cannot be downloaded, since 127.0.0.1:9 cannot be reached (connection re"
    )
    assert "yourself (TRAINING_CACHE names another folder)" in message


def test_a_damaged_file_is_removed(server: Server, setting: Path) -> None:
    content = bytearray(archive())
    content[len(content) // 4] ^= 255
    server.files[BOOKS] = bytes(content)
    assert "came damaged from" in fault("opus:Books/de-en", ("de", "en"))
    assert [path.suffix for path in setting.glob("downloads/*/*/*")] == [".lock"]
    server.files[BOOKS] = archive()
    assert len(read_pairs("opus:Books/de-en", ("de", "en"))) == 300


def test_a_file_shorter_than_announced_is_no_file(server: Server) -> None:
    server.files[BOOKS], server.ranges = archive(), False
    server.announced = len(server.files[BOOKS]) + 10
    assert "broke off after" in fault("opus:Books/de-en", ("de", "en"))


def test_unequal_sides_are_refused(server: Server) -> None:
    server.files[BOOKS] = archive(cut=3)
    assert fault("opus:Books/de-en", ("de", "en")) == (
        "The two sides of opus:Books/de-en have unequal numbers of lines: name another version, or tell"
        " its maintainers."
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("opus:Boks/de-en", "OPUS has no corpus 'Boks', did you mean "),
        ("opus:Books/de-xx", "OPUS has no pair de-xx in Books: with de it has "),
        ("opus:Books/v9/de-en", "OPUS has no version v9 of Books/de-en: it has v1."),
        ("opus:Books", "opus:Books is no name of OPUS: write opus:CORPUS/de-en or opus:CORPUS/VERSION/de-en."),
        ("opus:", "opus: is no name of OPUS"),
        (
            "mtdata:Statmt-news_comentary-16-deu-eng",
            "mtdata has no data set 'Statmt-news_comentary-16-deu-eng', did you",
        ),
    ],
)
def test_unknown_names_get_suggestions(monkeypatch: pytest.MonkeyPatch, server: Server, name: str, says: str) -> None:
    monkeypatch.setattr(public_data, "mtdata_entries", lambda _: entries(server))
    assert fault(name, ("de", "en")).startswith(says)


def test_other_languages_are_refused() -> None:
    assert fault("opus:Books/de-en", ("fr", "en")) == (
        "opus:Books/de-en holds deu and eng, not fr and en: name another data set, or other languages with --source and"
        " --target."
    )


def entries(server: Server) -> dict[Any, Any]:
    """Entries as of mtdata's index, with the server's addresses."""
    public_data._library("mtdata:")
    from mtdata.entry import DatasetId, Entry

    news = DatasetId("Statmt", "news_commentary", "16", ("deu", "eng"))
    two = DatasetId("Statmt", "two_files", "1", ("eng", "deu"))
    hub = DatasetId("Hub", "set", "1", ("deu", "eng"))
    return {
        news: Entry(news, f"{server.address}/news-commentary-v16.de-en.tsv.gz", cite=("tiedemann2012parallel",)),
        two: Entry(two, (f"{server.address}/a.en", f"{server.address}/a.de"), ext="txt", in_ext="txt"),  # type: ignore[arg-type]
        hub: Entry(hub, "https://huggingface.co/datasets/x/y", ext="hfds", in_paths=["*"], in_ext="hfds"),
    }


def test_entries_of_mtdata_are_read_by_its_own_readers(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(public_data, "mtdata_entries", lambda _: entries(server))
    server.files["/news-commentary-v16.de-en.tsv.gz"] = gzip.compress("".join(f"{a}\t{b}\n" for a, b in PAIRS).encode())
    server.files["/a.en"] = "".join(f"{b}\n" for _, b in PAIRS).encode()
    server.files["/a.de"] = "".join(f"{a}\n" for a, _ in PAIRS).encode()
    for name in ("mtdata:Statmt-news_commentary-16-deu-eng", "mtdata:statmt-two_files-1-eng-deu"):
        pairs = read_pairs(name, ("de", "en"))
        assert list(zip(pairs.sources, pairs.targets, strict=True)) == PAIRS
    assert fault("mtdata:Hub-set-1-deu-eng", ("de", "en")) == (
        "mtdata:Hub-set-1-deu-eng lies on the Hugging Face Hub: give it as hf:NAME instead."
    )


def test_a_run_takes_names_for_every_role(server: Server) -> None:
    server.files[BOOKS] = archive()
    data = {"train": ["opus:Books/de-en"], "test": "opus:Books/en-de"}
    train, valid, test = read_run_corpora(data, ("de", "en"), CleaningConfig(overlap="off"), seed=1)
    assert test is not None and valid is not None
    assert (len(test), len(train) + len(valid)) == (300, 300)


def test_the_library_leaves_logging_alone() -> None:
    before = list(logging.getLogger().handlers), logging.getLogger().level
    public_data._library("opus:")
    assert (list(logging.getLogger().handlers), logging.getLogger().level) == before


@pytest.mark.parametrize(
    ("releases", "latest"),
    [
        (["v20190709", "v2023-04-12", "v2021-07-22", "v2"], "v2023-04-12"),
        (["v1", "v10", "v9"], "v10"),
        (["v2018", "v20190101", "v1"], "v20190101"),
    ],
)
def test_the_latest_version_of_opus_is_taken(monkeypatch: pytest.MonkeyPatch, releases: list[str], latest: str) -> None:
    rows = [["Tatoeba", release, "de", "en"] for release in releases]
    monkeypatch.setattr(public_data, "_opus_rows", lambda: iter(rows))
    assert f"/OPUS-Tatoeba/{latest}/" in str(public_data.find_entry("opus:Tatoeba/de-en").url)
