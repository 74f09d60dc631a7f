"""The cache folder, which keeps files between runs: downloads, and prepared corpora that are too large for memory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

from training.distributed.torchrun import environment_rank

VARIABLE = "TRAINING_CACHE"


def cache_folder() -> Path:
    """The folder that TRAINING_CACHE names; ~/.cache/parlance/training without it."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "parlance" / "training"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock on this path against other processes, so that one of them does the work and the others find it. A
    process that has to wait says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if environment_rank() == 0:
                print(f"Waits for another process, which is making {path}.", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fill_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fills a new folder aside, then renames it, so that it is complete or absent, whatever ends the run. The caller
    holds its lock."""
    for remains in folder.parent.glob(f"{folder.name}.part-*"):  # of a killed run
        shutil.rmtree(remains, ignore_errors=True)
    aside = Path(mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        fill(aside)
        aside.chmod(0o755)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
