"""Files that a run left beside its weights, and that nobody has verified."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def beginning(path: Path, most: int) -> bytes:
    """At most so many bytes of a file. OSError if there is none, or none that ends: a pipe is not waited for."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        with os.fdopen(number, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(number)
