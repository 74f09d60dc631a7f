"""How a process of the service ends with the process that has started it."""

from __future__ import annotations

import ctypes
import signal
import sys


def die_with_parent() -> None:
    """Linux kills this process when the parent thread that spawned it ends, even where this process is stopped;
    elsewhere the closed socket ends it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
