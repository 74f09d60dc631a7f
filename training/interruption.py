"""Ctrl-C is never lost. Python raises KeyboardInterrupt wherever it happens to be, and where that is a destructor, a
weak reference's callback or a callback from C, it prints the exception and goes on: a run would, too, for hours."""

from __future__ import annotations

import signal
import threading
from types import FrameType

_asked = False


def heed() -> None:
    """From now on `check` repeats what was lost. Only the main thread can; a handler of somebody else's stays."""
    global _asked
    _asked = False
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True
    raise KeyboardInterrupt


def check() -> None:
    """KeyboardInterrupt if one was asked for; a run calls this between updates."""
    if _asked:
        raise KeyboardInterrupt
