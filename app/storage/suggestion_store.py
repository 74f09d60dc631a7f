"""Suggested translations, appended to FOLDER/suggestions.jsonl as training data: {q, s, source, target, at}."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import msgspec

MAX_BYTES = 10_000_000


class SuggestionsFull(Exception):
    """The file has reached its maximum size."""


class SuggestionStore:
    """Each line is one write in append mode, so that lines of concurrent threads and processes stay whole."""

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
                if os.fstat(descriptor).st_size + len(line) > self._max_bytes:
                    raise SuggestionsFull
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
