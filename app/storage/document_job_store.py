"""How far the documents are that are translated in the background: FOLDER/documents/<id>.json, one record each. All
processes with the folder can tell it of every document, whichever translates it, and after their own restart."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from app.errors import EngineUnavailable
from app.storage.data_folder import FileAges, RareLooks

logger = logging.getLogger(__name__)

BEAT_S = 5.0  # a process that translates a document touches its record this often
_LOST_S = 6 * BEAT_S  # without a beat for this long, the process has ended
_LOST = "The server that translated this document has ended before it was done; send it again."
_ID = re.compile(r"[0-9A-F]{32}")
State = Literal["queued", "translating", "done", "error"]


class DocumentJob(msgspec.Struct, frozen=True):
    """key_digest: SHA-256 of the key that opens the document. message: what went wrong. name: of the stored file, once
    it is done. filename: under which a client saves it. seconds_remaining: an estimate, while it is translated."""

    id: str
    key_digest: str
    extension: str
    filename: str
    state: State = "queued"
    characters: int = 0
    message: str = ""
    name: str = ""
    seconds_remaining: int | None = None

    @property
    def pending(self) -> bool:
        return self.state in ("queued", "translating")


class DocumentJobStore:
    """Blocking: call methods in a thread. A record expires `retention_s` after its last change."""

    def __init__(self, folder: Path, retention_s: float) -> None:
        self._folder = folder / "documents"
        self._retention_s = retention_s
        self._looks = RareLooks()
        self._ages = FileAges(folder)
        self._writing = threading.Lock()

    def add(self, extension: str, filename: str) -> tuple[DocumentJob, str]:
        """A new job that is queued, and its key; removes expired records. `EngineUnavailable` if nothing can be
        written."""
        self._remove_expired()
        key = secrets.token_hex(32).upper()
        job = DocumentJob(secrets.token_hex(16).upper(), _digest(key), extension, filename)
        self.save(job)
        return job, key

    def save(self, job: DocumentJob) -> None:
        """Readers see the old record or the new one. `EngineUnavailable` if nothing can be written."""
        path = self._path(job.id)
        aside = path.with_suffix(".aside")  # of this process alone: a document has one that translates it
        try:
            with self._writing:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                aside.write_bytes(msgspec.json.encode(job))
                aside.replace(path)
        except OSError as error:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            logger.error("%s cannot be written: %s", path, error)
            message = "This server cannot keep documents: it cannot write to its folder PARLANCE_DATA."
            raise EngineUnavailable(message) from error

    def beat(self, document_id: str, seconds_remaining: int | None = None) -> None:
        """Says that the process that has this document still works at it, and for how long it may."""
        path = self._path(document_id)
        with suppress(OSError, msgspec.DecodeError), self._writing:  # a full disk does not stop it
            os.utime(path)
            job = msgspec.json.decode(path.read_bytes(), type=DocumentJob)
            if job.state == "translating" and seconds_remaining is not None:
                aside = path.with_suffix(".aside")
                aside.write_bytes(
                    msgspec.json.encode(msgspec.structs.replace(job, seconds_remaining=seconds_remaining))
                )
                aside.replace(path)

    def find(self, document_id: str, key: str) -> DocumentJob | None:
        """None for an unknown document, an expired one, or a wrong key."""
        if not _ID.fullmatch(document_id):
            return None
        path = self._path(document_id)
        try:
            age_s = self._ages.age_s(path)
            job = msgspec.json.decode(path.read_bytes(), type=DocumentJob)
        except (OSError, msgspec.DecodeError):
            return None
        if age_s > self._retention_s or not hmac.compare_digest(job.key_digest, _digest(key)):
            return None
        lost = job.pending and age_s > _LOST_S
        return msgspec.structs.replace(job, state="error", message=_LOST) if lost else job

    def _remove_expired(self) -> None:
        if not self._looks.due():
            return
        with self._looks.timed():
            self._look()

    def _look(self) -> None:
        paths = list(self._folder.iterdir()) if self._folder.is_dir() else []
        for path in paths:
            with suppress(FileNotFoundError):  # another process may have removed it
                if self._ages.age_s(path) > self._retention_s:
                    path.unlink()
        self._ages.forget_others([path.name for path in paths])

    def _path(self, document_id: str) -> Path:
        return self._folder / f"{document_id}.json"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
