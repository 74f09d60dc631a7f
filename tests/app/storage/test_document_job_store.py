"""What processes that share a folder tell of each other's documents."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from app.errors import EngineUnavailable
from app.storage.document_job_store import DocumentJobStore


def aged(folder: Path, seconds: float) -> None:
    for path in (folder / "documents").iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def test_another_process_finds_a_document_with_its_key_alone(tmp_path: Path) -> None:
    one, other = DocumentJobStore(tmp_path, 600), DocumentJobStore(tmp_path, 600)
    job, key = one.add(".txt", "brief.en.txt")
    assert other.find(job.id, key) == job
    one.save(msgspec.structs.replace(job, state="done", characters=23, name="stored.txt"))
    found = other.find(job.id, key)
    assert found is not None
    assert (found.state, found.characters, found.name, found.filename) == ("done", 23, "stored.txt", "brief.en.txt")
    assert other.find(job.id, key.lower()) is None
    assert other.find("../documents/" + job.id, key) is None
    assert key not in "".join(path.read_text() for path in (tmp_path / "documents").iterdir())


def test_document_of_a_process_that_ended_is_an_error_and_no_endless_wait(tmp_path: Path) -> None:
    store = DocumentJobStore(tmp_path, 600)
    job, key = store.add(".txt", "")
    aged(tmp_path, 25)
    assert store.find(job.id, key) == job
    store.beat(job.id)
    aged(tmp_path, 31)
    lost = store.find(job.id, key)
    assert lost is not None
    assert (lost.state, lost.message.split(" has ")[0]) == ("error", "The server that translated this document")
    store.beat(job.id)  # it was only slow
    assert store.find(job.id, key) == job


def test_documents_expire(tmp_path: Path) -> None:
    store = DocumentJobStore(tmp_path, 600)
    job, key = store.add(".txt", "")
    store.save(msgspec.structs.replace(job, state="done"))
    aged(tmp_path, 599)
    assert store.find(job.id, key) is not None
    aged(tmp_path, 601)
    assert store.find(job.id, key) is None
    store.add(".txt", "")
    assert len(list((tmp_path / "documents").iterdir())) == 1


def test_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "documents").write_text("a file in its place")
    with pytest.raises(EngineUnavailable, match="cannot write to its folder PARLANCE_DATA"):
        DocumentJobStore(tmp_path, 600).add(".txt", "")


def test_estimate_is_told_while_a_document_is_translated_and_ends_with_it(tmp_path: Path) -> None:
    one, other = DocumentJobStore(tmp_path, 600), DocumentJobStore(tmp_path, 600)
    job, key = one.add(".txt", "")
    one.beat(job.id, 7)
    assert other.find(job.id, key) == job, "it is queued still"
    translating = msgspec.structs.replace(job, state="translating", seconds_remaining=1)
    one.save(translating)
    one.beat(job.id, 7)
    assert other.find(job.id, key) == msgspec.structs.replace(translating, seconds_remaining=7)
    done = msgspec.structs.replace(job, state="done", name="stored.txt")
    one.save(done)
    one.beat(job.id, 7)
    assert other.find(job.id, key) == done, "a beat on its way does not undo the end"


@pytest.mark.parametrize("wrong_by_s", [86_400, -86_400])
def test_document_is_neither_lost_nor_expired_by_another_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong_by_s: float
) -> None:
    store = DocumentJobStore(tmp_path, 600)
    job, key = store.add(".txt", "")
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + wrong_by_s)
    assert DocumentJobStore(tmp_path, 600).find(job.id, key) == job, "as another machine with the folder sees it"
    assert store.find(job.id, key) == job, "after this machine's clock was set"
    store.add(".txt", "")
    assert store.find(job.id, key) == job


def test_document_with_a_time_in_the_future_is_lost_and_expires_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DocumentJobStore(tmp_path, 600)
    job, key = store.add(".txt", "")
    aged(tmp_path, -86_400)
    assert store.find(job.id, key) == job
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 31)
    lost = store.find(job.id, key)
    assert lost is not None
    assert lost.state == "error"
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 601)
    assert store.find(job.id, key) is None
