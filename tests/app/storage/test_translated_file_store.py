"""Translated files on disk: unguessable, bounded, and gone in time."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import EngineUnavailable, Overloaded
from app.storage.document_job_store import DocumentJobStore
from app.storage.translated_file_store import TranslatedFileStore


def aged(folder: Path, name: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder / "files" / name, (then, then))


def test_file_is_read_by_its_name(tmp_path: Path) -> None:
    files = TranslatedFileStore(tmp_path, 60, 1000)
    names = {files.keep(".txt", b"abc") for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"[\w-]{43}\.txt", name) for name in names)
    assert {files.read(name) for name in names} == {b"abc"}
    assert TranslatedFileStore(tmp_path, 60, 1000).read(names.pop()) == b"abc", "another process serves it too"
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "name", ["", "..", "../secret.txt", "/etc/passwd", "a" * 43 + ".txt", "a" * 43 + ".txt\n", "\0"]
)
def test_other_names_read_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    files = TranslatedFileStore(tmp_path, 60, 1000)
    files.keep(".txt", b"abc")
    assert files.read(name) is None


def test_expired_files_are_not_served_and_are_removed(tmp_path: Path) -> None:
    files = TranslatedFileStore(tmp_path, 60, 1000)
    old, young = files.keep(".txt", b"old"), files.keep(".txt", b"young")
    aged(tmp_path, old, 61)
    aged(tmp_path, young, 59)
    assert (files.read(old), files.read(young)) == (None, b"young")
    foreign = tmp_path / "files" / "notes.txt"
    foreign.touch()
    aged(tmp_path, "notes.txt", 1000)
    files.remove_expired()
    assert {path.name for path in (tmp_path / "files").iterdir()} == {young, "notes.txt"}


def test_expire_task_removes_old_files(tmp_path: Path) -> None:
    files = TranslatedFileStore(tmp_path, 0.1, 1000)
    files.keep(".txt", b"abc")

    async def a_while() -> None:
        expiring = asyncio.create_task(files.expire())
        for _ in range(100):
            await asyncio.sleep(0.02)
            if not list((tmp_path / "files").iterdir()):
                break
        expiring.cancel()

    asyncio.run(a_while())
    assert not list((tmp_path / "files").iterdir())


def test_full_store_raises_overloaded_with_the_wait(tmp_path: Path) -> None:
    files = TranslatedFileStore(tmp_path, 60, 10)
    first = files.keep(".txt", b"12345678")
    aged(tmp_path, first, 19.5)
    with pytest.raises(Overloaded) as excinfo:
        files.keep(".txt", b"123")
    assert excinfo.value.retry_after_s == 41
    aged(tmp_path, first, 61)
    assert files.read(files.keep(".txt", b"123")) == b"123"


def test_half_a_file_is_not_left_on_a_full_disk(tmp_path: Path) -> None:
    files = TranslatedFileStore(tmp_path, 60, 10**9)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(EngineUnavailable, match="cannot write to its folder"):
            files.keep(".txt", b"a" * 2_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "files").iterdir()) == []


@pytest.mark.slow  # each look takes half a second
def test_a_folder_of_many_files_is_looked_through_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """25,000 files of one byte, which anybody may send, made every further file take a second."""
    looks, listed = 0, Path.iterdir

    def slow(folder: Path) -> Iterator[Path]:
        nonlocal looks
        looks += 1
        time.sleep(0.5)
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", slow)
    files, jobs = TranslatedFileStore(tmp_path, 60, 100), DocumentJobStore(tmp_path, 60)
    for _ in range(50):
        jobs.add(".txt", "a.txt")
        files.keep(".txt", b"a")
    assert looks < 10
    files.keep(".txt", b"a" * 50)
    with pytest.raises(Overloaded):
        files.keep(".txt", b"a")


@pytest.mark.parametrize("wrong_by_s", [86_400, -86_400])
def test_retention_trusts_no_other_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong_by_s: float) -> None:
    store = TranslatedFileStore(tmp_path, 600, 10)
    name = store.keep(".txt", b"12345678")
    clock, monotonic = time.time, time.monotonic
    monkeypatch.setattr(time, "time", lambda: clock() + wrong_by_s)
    for each in (store, TranslatedFileStore(tmp_path, 600, 10)):  # this machine's clock was set; another machine
        each.remove_expired()
        assert each.read(name) == b"12345678"
        with pytest.raises(Overloaded) as full:
            each.keep(".txt", b"12345678")
        assert 590 <= full.value.retry_after_s <= 600
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 601)
    assert store.read(name) is None
    store.remove_expired()
    assert not list((tmp_path / "files").iterdir())


def test_file_with_a_time_in_the_future_expires_after_its_retention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TranslatedFileStore(tmp_path, 600, 100)
    name = store.keep(".txt", b"a")
    aged(tmp_path, name, -86_400)
    assert store.read(name) == b"a"
    monotonic = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 601)
    assert store.read(name) is None
