"""SIGINT and SIGTERM during training: the first one asks the loop to finish the running update, save and stop; a second
one ends the process as it would without this module."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

STOPPING = (
    "\nStopping: the running update or validation is finished and saved first; once more ends the run at once, and what"
    " is younger than its last snapshot is lost.\n"
)


class Stopped(BaseException):
    """The loop has stopped because of a signal, after a snapshot. update, epoch: of the snapshot; finished epochs."""

    def __init__(self, number: int, update: int, epoch: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} after update {update:,}")
        self.number, self.update, self.epoch = number, update, epoch


class StopSignals:
    """Installs the handlers while entered; without effect outside the main thread. requested: the number of the first
    signal, or 0. announces: whether this process tells the user (rank 0 of a group)."""

    def __init__(self, *, announces: bool) -> None:
        self.requested = 0
        self.announces = announces
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:  # such as of a shell's background job
                    self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.requested = number
            if self.announces:
                # a handler must not use a stream whose buffer the interrupted code may be writing
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, STOPPING.encode())
            return
        previous = self._previous[number]
        self.__exit__()
        if callable(previous):
            previous(number, frame)
        else:
            signal.raise_signal(number)
