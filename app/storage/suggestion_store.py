"""Suggested translations, appended to FOLDER/suggestions.jsonl as training data: {q, s, source, target, at}."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import msgspec

MAX_BYTES = 10_000_000


class SuggestionsFull(Exception):
    """The file has reached its maximum size."""


class SuggestionStore:
    """A line is on the disk, whole, or not in the file at all. The file is locked meanwhile: other processes may share
    the folder."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = folder / "suggestions.jsonl"
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def add(self, q: str, s: str, source: str, target: str) -> None:
        """Appends a suggestion s for text q. Blocking: call it in a thread. Raises `SuggestionsFull`, `OSError`."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = msgspec.json.encode({"q": q, "s": s, "source": source, "target": target, "at": at}) + b"\n"
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # until the file is closed
                size_bytes = os.fstat(descriptor).st_size
                if size_bytes + len(line) > self._max_bytes:
                    raise SuggestionsFull
                try:
                    if os.write(descriptor, line) < len(line):  # a disk with room for a part of it is no error yet
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                    os.fsync(descriptor)  # some file systems find room only now
                except OSError:
                    os.ftruncate(descriptor, size_bytes)
                    raise
            finally:
                os.close(descriptor)
