"""Translated files until they expire: FOLDER/files/<random name>.<extension>"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path

from app.errors import EngineUnavailable, Overloaded
from app.storage.data_folder import FileAges, RareLooks

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9_-]{43}\.[a-z0-9]{1,16}")  # 256 random bits
_MAX_PAUSE_S = 60.0


class TranslatedFileStore:
    """Files that expire after `retention_s`, at most max_total_bytes together, shared by all processes with the folder;
    what another process has kept is counted from the next look through the folder on.
    The synchronous methods do blocking file I/O: call them in a thread."""

    def __init__(self, folder: Path, retention_s: float, max_total_bytes: int) -> None:
        self.retention_s = retention_s
        self._folder = folder / "files"
        self._max_total_bytes = max_total_bytes
        self._lock = threading.Lock()
        self._looks = RareLooks()
        self._ages = FileAges(folder)
        self._bytes = 0  # size of the folder: as of the last listing, plus files kept since
        self._first_end = 0.0  # by the monotonic clock: when the first of them expires

    def keep(self, extension: str, content: bytes) -> str:
        """Stores `content`; returns its name. extension: with its dot. Raises `Overloaded` without room, and
        `EngineUnavailable` if it cannot be written."""
        name = secrets.token_urlsafe(32) + extension
        assert _NAME.fullmatch(name), extension
        try:
            self._keep(name, content)
        except OSError as error:
            with suppress(OSError):  # of a full disk, which half a file would keep full
                (self._folder / name).unlink(missing_ok=True)
            logger.error("%s cannot be written: %s", self._folder / name, error)
            sentence = "This server cannot keep files: it cannot write to its folder PARLANCE_DATA."
            raise EngineUnavailable(sentence) from error
        return name

    def _keep(self, name: str, content: bytes) -> None:
        with self._lock:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._looks.due():
                with self._looks.timed():
                    self.remove_expired()
                    kept = self._kept()
                    self._bytes = sum(size for _, size, _ in kept)
                    self._first_end = time.monotonic() + min((left_s for *_, left_s in kept), default=self.retention_s)
            if self._bytes and self._bytes + len(content) > self._max_total_bytes:
                wait_s = max(1, math.ceil(self._first_end - time.monotonic()))
                full = "This server keeps as many translated files as it has room for"
                message = f"{full}; try again in {wait_s} seconds."
                raise Overloaded(message, retry_after_s=wait_s, reason="overloaded_files")
            descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            self._bytes += len(content)

    def read(self, name: str) -> bytes | None:
        """The content; None if the file does not exist or has expired."""
        if not _NAME.fullmatch(name):
            return None
        path = self._folder / name
        try:
            return path.read_bytes() if self._left_s(path) > 0 else None
        except FileNotFoundError:
            return None

    def remove_expired(self) -> None:
        for path, _, left_s in self._kept():
            if left_s <= 0:
                path.unlink(missing_ok=True)  # another process may have removed it

    async def expire(self) -> None:
        """Removes expired files periodically, also files of earlier processes, until cancelled."""
        while True:
            try:
                await asyncio.to_thread(self.remove_expired)
            except OSError as error:
                logger.error("translated files cannot be removed: %s", error)
            await asyncio.sleep(min(self.retention_s / 2, _MAX_PAUSE_S))

    def _kept(self) -> list[tuple[Path, int, float]]:
        """(path, size in bytes, seconds until it expires) of each file."""
        kept: list[tuple[Path, int, float]] = []
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            with suppress(FileNotFoundError):
                if _NAME.fullmatch(path.name):
                    kept.append((path, path.stat().st_size, self._left_s(path)))
        self._ages.forget_others([path.name for path, *_ in kept])
        return kept

    def _left_s(self, path: Path) -> float:
        return self.retention_s - self._ages.age_s(path)
