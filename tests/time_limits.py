"""A limit of processor time, so that a test of an input that once took minutes fails rather than hangs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def processor_seconds(limit_s: float) -> Iterator[None]:
    """TimeoutError once this process has computed for so long, also within a regular expression. limit_s: many times
    what the work takes, and far less than what it took."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {limit_s} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
