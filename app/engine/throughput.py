"""How much is done in a second of work."""

from __future__ import annotations

import time
from collections import deque

WINDOW_S = 30.0  # of the measured time
LEAST_S = 2.0  # measured for less, a rate says nothing
TELLING_S = 2.0  # devices tell every second what they did for those who have left


class Throughput:
    """Finished work over the time in which the measure ran: time without work says nothing about how fast it goes."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._since: float | None = None
        self._stopped = 0.0
        self._told_s = -TELLING_S
        self._finished: deque[tuple[float, int]] = deque()  # (when, by our own clock; work)
        self._work = 0  # the sum of all these

    def run(self, on: bool) -> None:
        """Let the clock run, or stop it."""
        if on == (self._since is not None):
            return
        self._before_s = self._clock_s()
        self._stopped = time.monotonic()
        self._since = self._stopped if on else None

    def finished(self, work: int) -> None:
        if self._since is not None:
            self._add(work)

    def told(self, work: int) -> None:
        """What was computed for those who have left, told up to a second later: perhaps when all have left, and the
        clock, which ran for them, stands still."""
        if self._since is not None or time.monotonic() - self._stopped <= TELLING_S:
            self._told_s = self._clock_s()
            self._add(work)

    def rate(self) -> float | None:
        """Work a second over the last `WINDOW_S` of the measured time; None while there is too little to say. Up to
        the last telling if there was one just now: later time is known, but not yet all that was done in it."""
        self._forget()
        now_s = self._clock_s()
        until_s = self._told_s if now_s - self._told_s < TELLING_S else now_s
        measured_s = until_s - max(0.0, now_s - WINDOW_S)
        done = self._work
        for when, work in reversed(self._finished):  # few: not the whole window, for every request asks
            if when <= until_s:
                break
            done -= work
        return done / measured_s if measured_s >= LEAST_S and done else None

    def _add(self, work: int) -> None:
        if work:
            self._finished.append((self._clock_s(), work))
            self._work += work
        self._forget()

    def _clock_s(self) -> float:
        return self._before_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def _forget(self) -> None:
        """Here, and not only when someone asks: a service that never is full would remember every request."""
        begin = self._clock_s() - WINDOW_S
        while self._finished and self._finished[0][0] < begin:
            self._work -= self._finished.popleft()[1]
