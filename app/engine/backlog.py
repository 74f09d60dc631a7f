"""What was admitted and is not done yet, of one model or of all, and how fast it gets done."""

from __future__ import annotations

import math

from app.engine.throughput import Throughput

LONGEST_RETRY_S = 60


class Backlog:
    """open: requests;  requests: their sequences;  work: tokens, to read and to write;  rows: slots that they need.
    Throughput is measured twice: `loaded` while there is more to do than fits the slots, which is the only rate that
    says how fast a queue moves; `busy` while there is anything to do."""

    def __init__(self) -> None:
        self.open = self.requests = self.work = self.rows = 0
        self.busy, self.loaded = Throughput(), Throughput()

    def count(self, requests: int, work: int, rows: int) -> None:
        self.requests += requests
        self.work += work
        self.rows += rows
        self.busy.run(self.requests > 0)

    def finished(self, work: int) -> None:
        if work:
            self.busy.finished(work)
            self.loaded.finished(work)

    def told(self, work: int) -> None:
        """A device has told, as it does every second, how much it computed for those who have left since."""
        self.busy.told(work)
        self.loaded.told(work)

    def queue_s(self, slots: int, sequences: int = 1) -> float:
        """How long the last of a new request's sequences would wait for a slot: while the work that has none is done at
        the measured throughput, or until its turn among all requests comes so many times, every second start being
        one (`app.engine.waiting`). 0 while there is no throughput to measure: a first burst is let in."""
        rate = self.loaded.rate()
        if self.rows <= slots or not rate:
            return 0.0
        waiting = self.work * (self.rows - slots) / self.rows
        in_turn = 2 * self.open * sequences * self.work / self.requests
        return min(waiting, in_turn) / rate

    def retry_after_s(self) -> int:
        """How long all of it will take at the measured throughput, in whole seconds; 1 to 60."""
        rate = self.loaded.rate() or self.busy.rate()
        return max(1, min(LONGEST_RETRY_S, math.ceil(self.work / rate))) if rate else 1
