"""Better translations that readers suggest, one JSON object a line, as training data for the next model.

FOLDER/suggestions.jsonl    {"q", "s", "source", "target", "at"}"""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import msgspec

MAX_BYTES = 10_000_000


class SuggestionsFull(Exception):
    """The file has reached its largest size."""


class SuggestionStore:
    """Each line is one write to a file that is only appended to, so that lines of threads and processes stay whole."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = folder / "suggestions.jsonl"
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def add(self, q: str, s: str, source: str, target: str) -> None:
        """q: the text; s: what its translation should be; source, target: codes of a loaded pair. Writes to the disk:
        call it in a thread. Raises `SuggestionsFull`, or `OSError` where it cannot write."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        fields = {"q": q, "s": s, "source": source, "target": target, "at": at}
        line = msgspec.json.encode(fields) + b"\n"
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(descriptor).st_size + len(line) > self._max_bytes:
                    raise SuggestionsFull
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
