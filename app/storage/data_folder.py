"""What the stores in the folder of PARLANCE_DATA share. Whether it can be written: an operator learns that when the
server starts, and not a caller who leaves a glossary there. How old its files are, whatever a machine's clock says,
and when to look through them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

_SHORT_LOOK_S = 0.02
_LOOK_PAUSE = 19  # times the duration of the last look
_CLOCK_READING_S = 1.0  # seconds for which one reading of the file system's clock serves


def data_folder_problem(folder: Path) -> str | None:
    """One sentence if nothing can be kept in the folder, else None. A missing folder is not made yet: it is enough that
    it can be made."""
    nearest = folder
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return None
    except OSError as error:
        return (
            f"Glossaries, documents and translated files cannot be kept: PARLANCE_DATA is {folder}, which cannot be"
            f" written ({error.strerror}); name a folder that can."
        )


class FileAges:
    """Seconds since files last changed. At first sight a file's age is read from the clock that wrote its time, that of
    the file system: a network's file server has its own. From then on the monotonic clock counts, so that a clock that
    is set back or forth while the server runs ages no file that it knows. A time in the future is an age of 0.

    folder: on the same file system as the files, for the file `.clock` that is touched to read the clock."""

    def __init__(self, folder: Path) -> None:
        self._clock = folder / ".clock"
        self._seen: dict[str, tuple[int, float]] = {}  # name -> its time (ns), and when it changed, monotonic
        self._offset_s = self._read_at = 0.0

    def age_s(self, path: Path) -> float:
        """Raises `FileNotFoundError`."""
        changed_ns, now = path.stat().st_mtime_ns, time.monotonic()
        known = self._seen.get(path.name)
        if known is None or known[0] != changed_ns:
            age_s = max(0.0, self._file_system_time() - changed_ns / 1e9)
            known = self._seen[path.name] = changed_ns, now - age_s
        return now - known[1]

    def forget_others(self, names: Collection[str]) -> None:
        """Keeps what is known of the files of these names only."""
        for name in self._seen.keys() - set(names):
            self._seen.pop(name, None)

    def _file_system_time(self) -> float:
        now = time.monotonic()
        if not self._read_at or now - self._read_at > _CLOCK_READING_S:
            self._offset_s, self._read_at = self._touched() - now, now
        return now + self._offset_s

    def _touched(self) -> float:
        try:
            descriptor = os.open(self._clock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # the folder cannot be written: this machine's clock is all there is
            return time.time()
        try:
            os.utime(descriptor)  # a file server sets its own time
            return os.fstat(descriptor).st_mtime
        finally:
            os.close(descriptor)


class RareLooks:
    """When to look through a folder that strangers fill: always while a look is short; but a look takes a second where
    there are 25,000 files, and long looks are at most a twentieth of the time."""

    def __init__(self) -> None:
        self._next = 0.0

    def due(self) -> bool:
        return time.monotonic() >= self._next

    @contextmanager
    def timed(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        ended = time.monotonic()
        took_s = ended - began
        self._next = ended + _LOOK_PAUSE * took_s if took_s > _SHORT_LOOK_S else ended
