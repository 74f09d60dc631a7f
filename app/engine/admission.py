"""Admission control: bounded requests, queued tokens and expected waiting time, decided before anything reaches a
device."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from app.errors import EngineUnavailable, InvalidRequest, Overloaded

WINDOW_S = 30.0  # of the measured time
MIN_MEASURED_S = 2.0  # measured for less, a rate says nothing
REPORT_INTERVAL_S = 2.0  # devices report every second what they computed for cancelled requests
MAX_RETRY_AFTER_S = 60


class Throughput:
    """Finished work over the time in which the clock ran: time without work says nothing about how fast it goes."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._since: float | None = None
        self._stopped = 0.0
        self._reported_s = -REPORT_INTERVAL_S
        self._finished: deque[tuple[float, int]] = deque()  # (when, by our own clock; work)
        self._work = 0  # their sum

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

    def reported(self, work: int) -> None:
        """Work for cancelled requests, reported up to a second later: perhaps when all have left, and the clock, which
        ran for them, stands still."""
        if self._since is not None or time.monotonic() - self._stopped <= REPORT_INTERVAL_S:
            self._reported_s = self._clock_s()
            self._add(work)

    def rate(self) -> float | None:
        """Work a second over the last `WINDOW_S` of the measured time; None while there is too little to say. Up to
        the last report if there was one just now: later time is known, but not yet all the work that was done in it."""
        now_s = self._clock_s()
        self._forget(now_s)
        until_s = self._reported_s if now_s - self._reported_s < REPORT_INTERVAL_S else now_s
        measured_s = until_s - max(0.0, now_s - WINDOW_S)
        done = self._work
        for when, work in reversed(self._finished):  # few: not the whole window, for this runs at every request
            if when <= until_s:
                break
            done -= work
        return done / measured_s if measured_s >= MIN_MEASURED_S and done else None

    def _add(self, work: int) -> None:
        now_s = self._clock_s()
        if work:
            self._finished.append((now_s, work))
            self._work += work
        self._forget(now_s)

    def _clock_s(self) -> float:
        return self._before_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def _forget(self, now_s: float) -> None:
        """Not only in `rate`: a service that never is full would remember every request."""
        while self._finished and self._finished[0][0] < now_s - WINDOW_S:
            self._work -= self._finished.popleft()[1]


class Backlog:
    """What was admitted and is not done yet, of one model or of all, and how fast it gets done.

    open: requests;  requests: their sequences;  work: tokens, to read and to write;  rows: slots that they need.
    Throughput is measured twice: `loaded` while there is more to do than fits the slots, which is the only rate that
    says how fast a queue moves; `busy` while there is anything to do."""

    def __init__(self) -> None:
        self.open = self.requests = self.work = self.rows = 0
        self.busy, self.loaded = Throughput(), Throughput()

    def queue_s(self, slots: int, sequences: int = 1) -> float:
        """How long the last of a new request's sequences would wait for a slot: while the work that has none is done at
        the measured throughput, or until its turn among all requests comes so many times, every second start being
        one (`app.engine.worker.request_queue`). 0 while there is no throughput to measure: a first burst is let in."""
        if self.rows <= slots or not (rate := self.loaded.rate()):
            return 0.0
        waiting = self.work * (self.rows - slots) / self.rows
        in_turn = 2 * self.open * sequences * self.work / self.requests
        return min(waiting, in_turn) / rate

    def retry_after_s(self) -> int:
        """How long all of it will take at the measured throughput, in whole seconds; 1 to 60."""
        rate = self.loaded.rate() or self.busy.rate()
        return max(1, min(MAX_RETRY_AFTER_S, math.ceil(self.work / rate))) if rate else 1


class Demand(NamedTuple):
    """What a request, or a part of it, takes of one model, by its plain name. read_tokens: of its sources and prompts;
    new_tokens: how many it will probably write; rows: the slots that it needs, a beam of k counts k."""

    model: str
    requests: int
    read_tokens: int
    new_tokens: int
    rows: int

    @property
    def work(self) -> int:
        return self.read_tokens + self.new_tokens

    def plus(self, other: Demand, sign: int = 1) -> Demand:
        """Of the same model; sign -1 takes it away."""
        _, requests, read_tokens, new_tokens, rows = other
        return Demand(
            self.model,
            self.requests + sign * requests,
            self.read_tokens + sign * read_tokens,
            self.new_tokens + sign * new_tokens,
            self.rows + sign * rows,
        )


class Admission:
    """Requests and tokens are bounded for all models together, waiting time for each: a model has its own slots and
    its own speed. slots: of one model on all devices. max_queue_age_s: how long a request may wait for a slot."""

    def __init__(
        self, max_requests: int, max_tokens: int, *, slots: int = 64, max_queue_age_s: float = math.inf
    ) -> None:
        self.max_requests, self.max_tokens = max_requests, max_tokens
        self.slots, self.max_queue_age_s = slots, max_queue_age_s
        self.draining = False
        self.tokens = 0
        self.all = Backlog()
        self.models: defaultdict[str, Backlog] = defaultdict(Backlog)

    @property
    def requests(self) -> int:
        return self.all.requests

    @contextmanager
    def admitted(self, *demands: Demand) -> Iterator[Callable[[Demand], None]]:
        """Room for all of it together. Overloaded or EngineUnavailable if there is none now; InvalidRequest if it could
        never fit. Yields what gives back the part of a sequence that is answered, at once: else the last text of a page
        would keep others out as if all of the page were still to do."""
        held: dict[str, Demand] = {}
        for demand in demands:
            held[demand.model] = held[demand.model].plus(demand) if demand.model in held else demand
        totals = list(held.values())
        self._check(totals)

        def answered(part: Demand) -> None:
            held[part.model] = held[part.model].plus(part, -1)
            self._done(part)

        for demand in totals:
            self.models[demand.model].open += 1
            self._count(demand, 1)
        try:
            yield answered
            for model in list(held):
                self._done(held.pop(model))
        finally:
            for rest in held.values():
                self._count(rest, -1)
            for demand in totals:
                self.models[demand.model].open -= 1

    def start_by(self, first: bool = True) -> float:
        """When a request that comes in now must have got its slots: its first sequence. The sequences beside it then
        have the request's time and no other limit (0), or most of a page would be computed for a 429."""
        return time.monotonic() + self.max_queue_age_s if first else 0.0

    def _done(self, part: Demand) -> None:
        """Not for what failed or was cancelled: devices report how much of that was computed (`wasted`)."""
        for backlog in (self.models[part.model], self.all):
            if work := part.work:
                backlog.busy.finished(work)
                backlog.loaded.finished(work)
        self._count(part, -1)

    def wasted(self, model: str, tokens: int) -> None:
        """So many were computed for requests that were cancelled. The time went into them, so they count: else a
        service that many clients leave would think itself slow, and refuse the clients that stay."""
        for backlog in (self.models[model], self.all):
            backlog.busy.reported(tokens)
            backlog.loaded.reported(tokens)

    def refuse_when_draining(self) -> None:
        if self.draining:
            raise EngineUnavailable("The service is shutting down; try again in a moment.", reason="draining")

    def check_room(self, requests: int = 1, tokens: int = 1) -> None:
        """EngineUnavailable or Overloaded if so much would be refused, whatever model it is for."""
        self.refuse_when_draining()
        if self.all.requests + requests > self.max_requests:
            raise self._overloaded("overloaded_requests", self.all)
        if self.tokens + tokens > self.max_tokens:
            raise self._overloaded("overloaded_tokens", self.all)

    def _check(self, demands: Sequence[Demand]) -> None:
        self.refuse_when_draining()
        requests = tokens = 0
        for demand in demands:
            requests += demand.requests
            tokens += demand.read_tokens
        if requests > self.max_requests or tokens > self.max_tokens:
            raise InvalidRequest(
                f"This asks for {requests} sequences of {tokens:,} tokens at once; the service"
                f" takes {self.max_requests} and {self.max_tokens:,}. Send it in parts."
            )
        self.check_room(requests, tokens)
        for demand in demands:
            if self.queue_s(demand.model, demand.requests) > self.max_queue_age_s:
                raise self._overloaded("queue_age", self.models[demand.model])

    def _overloaded(self, reason: str, backlog: Backlog) -> Overloaded:
        wait = backlog.retry_after_s()
        message = f"Too many requests right now; try again in {wait} second{'s' * (wait != 1)}."
        return Overloaded(message, retry_after_s=wait, reason=reason)

    def _count(self, demand: Demand, sign: int) -> None:
        self.tokens += sign * demand.read_tokens
        model = self.models[demand.model]
        for backlog in (model, self.all):
            backlog.requests += sign * demand.requests
            backlog.work += sign * demand.work
            backlog.rows += sign * demand.rows
            backlog.busy.run(backlog.requests > 0)
        model.loaded.run(model.rows > self.slots)
        loaded = self.all.requests >= self.max_requests
        for backlog in self.models.values():  # without a generator, since this runs three times for each sequence
            loaded = loaded or backlog.rows > self.slots
        self.all.loaded.run(loaded)

    def queue_s(self, model: str, sequences: int = 1) -> float:
        """How long a new request of so many sequences would wait for its last slot; see `Backlog.queue_s`."""
        return self.models[model].queue_s(self.slots, sequences) if model in self.models else 0.0

    def retry_after_s(self, model: str) -> int:
        """When that model will have done what it has, in whole seconds; 1 to 60."""
        return self.models[model].retry_after_s() if model in self.models else 1
