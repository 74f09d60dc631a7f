"""How much is done in a second of work."""

from __future__ import annotations

import time
from collections import deque

WINDOW_S = 30.0  # of the measured time
LEAST_S = 2.0  # measured for less, a rate says nothing: what was cancelled is told a second later


class Throughput:
    """Finished work over the time in which the measure ran: time without work says nothing about how fast it goes."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._since: float | None = None
        self._finished: deque[tuple[float, int]] = deque()  # (when, by our own clock; work)
        self._work = 0  # the sum of all these: every request asks

    def run(self, on: bool) -> None:
        """Let the clock run, or stop it."""
        if on == (self._since is not None):
            return
        self._before_s = self._clock_s()
        self._since = time.monotonic() if on else None

    def finished(self, work: int) -> None:
        if self._since is not None:
            self._finished.append((self._clock_s(), work))
            self._work += work
            self._forget()

    def rate(self) -> float | None:
        """Work a second over the last `WINDOW_S` of the measured time; None while there is too little to say."""
        self._forget()
        measured_s = min(self._clock_s(), WINDOW_S)
        if measured_s < LEAST_S or not self._finished:
            return None
        return self._work / measured_s

    def _clock_s(self) -> float:
        return self._before_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def _forget(self) -> None:
        """Here, and not only when someone asks: a service that never is full would remember every request."""
        begin = self._clock_s() - WINDOW_S
        while self._finished and self._finished[0][0] < begin:
            self._work -= self._finished.popleft()[1]
