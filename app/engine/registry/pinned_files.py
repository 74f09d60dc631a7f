"""A checkpoint's files, held open as they were when it was read."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable
from pathlib import Path


class PinnedFiles:
    """Held open as long as this lives. Whatever is written into a file is seen by all who have it open, so this helps
    where files are replaced or removed, as `python -m training`, rsync and package managers do."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._files = dict[str, int]()
        weakref.finalize(self, close_files, self._files)
        for name in names:
            self._files[name] = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)

    def paths(self) -> dict[str, str]:
        """By which another process of this user opens them; none where the system has no such paths."""
        if sys.platform != "linux":
            return {}
        return {name: f"/proc/{os.getpid()}/fd/{number}" for name, number in self._files.items()}


def close_files(files: dict[str, int]) -> None:
    for number in files.values():
        os.close(number)
