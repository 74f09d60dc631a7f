"""JSON files that are whole or not there, and one writer at a time, whichever thread or process it is in."""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.engine.errors import EngineUnavailable

logger = logging.getLogger(__name__)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A folder that cannot be written, or a disk that is full, is nothing that the request did: `EngineUnavailable`."""
    try:
        yield
    except OSError as error:
        logger.error("%s cannot be written: %s", folder, error)
        raise EngineUnavailable(
            "This server cannot keep glossaries: it cannot write to its folder PARLANCE_DATA."
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone among all that lock this folder, which is made where it is missing. The lock is the kernel's: it ends with
    its process, so nobody has to clean up after one that died."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with writing(folder):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def written(path: Path, content: bytes) -> None:
    """`content` as the file `path`: written aside and renamed, so that readers, and a crash, see the old or the new."""
    with writing(path.parent):
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=".aside-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
