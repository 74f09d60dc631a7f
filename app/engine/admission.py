"""Who may come in: bounded requests, tokens and waiting time, decided before anything is sent to a device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.engine.errors import InvalidRequest, Overloaded
from app.engine.throughput import Throughput

LONGEST_RETRY_S = 60


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request asks for. read_tokens: of its sources and prompts; new_tokens: how many it will probably write;
    rows: the slots that it needs, a beam of k counts k."""

    requests: int
    read_tokens: int
    new_tokens: int
    rows: int

    @property
    def work(self) -> int:
        return self.read_tokens + self.new_tokens

    @classmethod
    def total(cls, parts: Iterable[Demand]) -> Demand:
        each = [(part.requests, part.read_tokens, part.new_tokens, part.rows) for part in parts]
        return cls(*(sum(part[i] for part in each) for i in range(4)))


SMALLEST = Demand(requests=1, read_tokens=1, new_tokens=0, rows=1)


class Share:
    """The room that one request holds. A sequence of it that is answered gives its part back at once: else the last
    text of a page would keep others out as if all of the page were still to do."""

    def __init__(self, admission: Admission, demand: Demand) -> None:
        self._admission, self._held = admission, demand

    def answered(self, part: Demand) -> None:
        held = self._held
        self._held = Demand(
            held.requests - part.requests,
            held.read_tokens - part.read_tokens,
            held.new_tokens - part.new_tokens,
            held.rows - part.rows,
        )
        self._admission.done(part)

    def rest(self) -> Demand:
        """What nobody has given back; nothing is held any more."""
        rest, self._held = self._held, Demand(0, 0, 0, 0)
        return rest


class Admission:
    """slots: of one model on all devices. Throughput is measured twice: `loaded` while there is more to do than
    fits the slots, which is the only rate that says how fast a queue moves; `busy` while there is anything to do."""

    def __init__(
        self, max_requests: int, max_tokens: int, *, slots: int = 64, max_queue_age_s: float = math.inf
    ) -> None:
        self.max_requests, self.max_tokens = max_requests, max_tokens
        self.slots, self.max_queue_age_s = slots, max_queue_age_s
        self.requests = self.tokens = self.work = self.rows = 0
        self.busy, self.loaded = Throughput(), Throughput()

    @contextmanager
    def admitted(self, demand: Demand) -> Iterator[Share]:
        """Room for all of it together, or Overloaded; InvalidRequest if it could never fit."""
        self._check(demand)
        self._count(demand, 1)
        share = Share(self, demand)
        try:
            yield share
            self.done(share.rest())
        finally:
            self._count(share.rest(), -1)

    def done(self, part: Demand) -> None:
        """Not for what failed or was cancelled: how much of that was done, the devices tell (`wasted`)."""
        if part.work:
            self._finished(part.work)
        self._count(part, -1)

    def wasted(self, tokens: int) -> None:
        """So many were computed for requests that were cancelled. The time went into them, so they count: else a
        service that many clients leave would think itself slow, and refuse those who stay."""
        if tokens:
            self._finished(tokens)

    def _finished(self, work: int) -> None:
        self.busy.finished(work)
        self.loaded.finished(work)

    def _check(self, demand: Demand) -> None:
        if demand.requests > self.max_requests or demand.read_tokens > self.max_tokens:
            raise InvalidRequest(
                f"This asks for {demand.requests} sequences of {demand.read_tokens:,} tokens at once; the service"
                f" takes {self.max_requests} and {self.max_tokens:,}. Send it in parts."
            )
        self._refuse(demand)

    def check_room(self) -> None:
        """Overloaded if even the smallest request would be."""
        self._refuse(SMALLEST)

    def _refuse(self, demand: Demand) -> None:
        full = {
            "overloaded_requests": self.requests + demand.requests > self.max_requests,
            "overloaded_tokens": self.tokens + demand.read_tokens > self.max_tokens,
            "queue_age": self.queue_s() > self.max_queue_age_s,
        }
        if reason := next((reason for reason, true in full.items() if true), None):
            wait = self.retry_after_s()
            raise Overloaded(
                f"Too many requests right now; try again in {wait} second{'s' * (wait != 1)}.",
                retry_after_s=wait,
                reason=reason,
            )

    def _count(self, demand: Demand, sign: int) -> None:
        self.requests += sign * demand.requests
        self.tokens += sign * demand.read_tokens
        self.work += sign * demand.work
        self.rows += sign * demand.rows
        self.busy.run(self.requests > 0)
        self.loaded.run(self.rows > self.slots or self.requests >= self.max_requests)

    def queue_s(self) -> float:
        """How long a new request would wait for a slot: the work that has none, over the measured throughput.
        0 while there is none to measure: a first burst is let in."""
        rate = self.loaded.rate()
        if self.rows <= self.slots or not rate:
            return 0.0
        return self.work * (self.rows - self.slots) / self.rows / rate

    def retry_after_s(self) -> int:
        """How long the work in flight will take at the measured throughput, in whole seconds; 1 to 60."""
        rate = self.loaded.rate() or self.busy.rate()
        return max(1, min(LONGEST_RETRY_S, math.ceil(self.work / rate))) if rate else 1
