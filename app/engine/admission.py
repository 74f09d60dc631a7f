"""Admission control: bounds requests, queued tokens and expected waiting time before anything reaches a device."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from app.errors import EngineUnavailable, InvalidRequest, Overloaded

WINDOW_S = 30.0  # of measured time
MIN_MEASURED_S = 2.0  # a rate over less time is noise
REPORT_INTERVAL_S = 2.0  # devices report work for cancelled requests every second
MAX_RETRY_AFTER_S = 60


class Throughput:
    """Finished work per second of measured time; the clock stops while there is no work."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._since: float | None = None
        self._stopped = 0.0
        self._reported_s = -REPORT_INTERVAL_S
        self._finished: deque[tuple[float, int]] = deque()  # (time by our own clock, work)
        self._work = 0  # sum over _finished

    def run(self, on: bool) -> None:
        if on == (self._since is not None):
            return
        self._before_s = self._clock_s()
        self._stopped = time.monotonic()
        self._since = self._stopped if on else None

    def finished(self, work: int) -> None:
        if self._since is not None:
            self._add(work)

    def reported(self, work: int) -> None:
        """Adds work for cancelled requests, reported up to a second late: perhaps after the clock has stopped."""
        if self._since is not None or time.monotonic() - self._stopped <= REPORT_INTERVAL_S:
            self._reported_s = self._clock_s()
            self._add(work)

    def rate(self) -> float | None:
        """Work per second over the last `WINDOW_S` of measured time; None while too little is measured. Ends at the
        last report if it is recent: work done since then is not known yet."""
        now_s = self._clock_s()
        self._forget(now_s)
        until_s = self._reported_s if now_s - self._reported_s < REPORT_INTERVAL_S else now_s
        measured_s = until_s - max(0.0, now_s - WINDOW_S)
        done = self._work
        for when, work in reversed(self._finished):  # only the newest entries: this runs on every request
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
        """Drops old entries. Also called outside `rate`, or a service that is never full would keep every request."""
        while self._finished and self._finished[0][0] < now_s - WINDOW_S:
            self._work -= self._finished.popleft()[1]


class Backlog:
    """Admitted, unfinished work of one model or of all. open: requests; requests: their sequences; work: tokens to read
    and to write; rows: slots that they need. Throughput is measured twice: `loaded` while the work exceeds the slots,
    the only rate at which a queue moves; `busy` while there is any work. slots: that can be taken at once."""

    def __init__(self, slots: int = 0) -> None:
        self.slots = slots
        self.open = self.requests = self.work = self.rows = 0
        self.busy, self.loaded = Throughput(), Throughput()

    def queue_s(self, sequences: int = 1) -> float:
        """Seconds until the last of a new request's sequences gets a slot: the time to finish the work that waits for a
        slot, or, if shorter, `sequences` turns of fair scheduling, where every second start is a turn
        (`app.engine.worker.request_queue`). 0 without a measured throughput: a first burst is admitted."""
        if self.rows <= self.slots or not (rate := self.loaded.rate()):
            return 0.0
        waiting = self.work * (self.rows - self.slots) / self.rows
        in_turn = 2 * self.open * sequences * self.work / self.requests
        return min(waiting, in_turn) / rate

    def retry_after_s(self) -> int:
        """Whole seconds to finish all of the work at the measured throughput, 1 to 60."""
        rate = self.loaded.rate() or self.busy.rate()
        return max(1, min(MAX_RETRY_AFTER_S, math.ceil(self.work / rate))) if rate else 1


class Demand(NamedTuple):
    """The cost of a request, or of a part of it, on one model. model: without its version. read_tokens: of sources and
    prompts; new_tokens: expected output; rows: slots, a beam of k counts k."""

    model: str
    requests: int
    read_tokens: int
    new_tokens: int
    rows: int

    @property
    def work(self) -> int:
        return self.read_tokens + self.new_tokens

    def plus(self, other: Demand, sign: int = 1) -> Demand:
        """Adds a demand on the same model; sign -1 subtracts it."""
        return Demand(self.model, *(own + sign * more for own, more in zip(self[1:], other[1:], strict=True)))


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The HTTP request that the current context works for. client: its key or its address; "" outside of requests.
    deadline: CLOCK_MONOTONIC seconds by which the whole request has to be answered."""

    client: str = ""
    deadline: float = math.inf


OUTSIDE = RequestOrigin()
ORIGIN: ContextVar[RequestOrigin] = ContextVar("origin", default=OUTSIDE)
FREE_SHARE = 3  # a client alone may hold three quarters of the room, each of four clients 3/13


class ClientHoldings:
    """Requests and tokens of each client that has any. A client may hold up to `FREE_SHARE` times what nobody holds
    (dynamic thresholds: Choudhury and Hahne 1998, IEEE/ACM Transactions on Networking 6.2), so that one client alone
    gets most of the room, and the next finds some."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[int, int]] = {}

    def add(self, client: str, requests: int, tokens: int) -> None:
        before = self.held.get(client, (0, 0))
        now = before[0] + requests, before[1] + tokens
        if any(now):
            self.held[client] = now
        else:
            self.held.pop(client, None)

    def exceeds(self, client: str, requests: int, tokens: int, free_requests: int, free_tokens: int) -> bool:
        """Whether the client would hold more than its share. A client that holds nothing takes what is free."""
        held = self.held.get(client)
        return held is not None and (
            held[0] + requests > FREE_SHARE * free_requests or held[1] + tokens > FREE_SHARE * free_tokens
        )


class Admission:
    """Bounds requests and tokens over all models, and waiting time per model, which has its own slots and speed.
    slots: of one model on each device, until the device has reported how many it has. max_queue_age_s: the longest
    that a request may wait for a slot."""

    def __init__(
        self,
        max_requests: int,
        max_tokens: int,
        *,
        slots: int = 64,
        devices: Sequence[str] = ("cpu",),
        max_queue_age_s: float = math.inf,
    ) -> None:
        self.max_requests, self.max_tokens = max_requests, max_tokens
        self.max_queue_age_s = max_queue_age_s
        # model -> device -> slots
        self._slots: defaultdict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(devices, slots))
        self.draining = False
        self.tokens = 0
        self.all = Backlog()
        self.clients = ClientHoldings()
        self.models: defaultdict[str, Backlog] = defaultdict(lambda: Backlog(slots * len(devices)))

    @contextmanager
    def admitted(self, *demands: Demand) -> Iterator[Callable[[Demand], None]]:
        """Holds room for all demands. Raises Overloaded or EngineUnavailable if there is no room now, InvalidRequest
        if they can never fit. Yields a function that releases an answered sequence's part early: otherwise the last
        text of a page would keep other requests out as if the whole page were unfinished."""
        held: dict[str, Demand] = {}
        for demand in demands:
            held[demand.model] = held[demand.model].plus(demand) if demand.model in held else demand
        totals, client = list(held.values()), ORIGIN.get().client
        self._check(totals)

        def answered(part: Demand) -> None:
            held[part.model] = held[part.model].plus(part, -1)
            self._done(part, client)

        for demand in totals:
            self.models[demand.model].open += 1
            self._count(demand, 1, client)
        try:
            yield answered
            for model in list(held):
                self._done(held.pop(model), client)
        finally:
            for rest in held.values():
                self._count(rest, -1, client)
            for demand in totals:
                self.models[demand.model].open -= 1

    def start_by(self, first: bool = True) -> float:
        """The deadline (monotonic seconds) by which a new request must have its slots. Applies to the first sequence;
        later ones (0) have only the request timeout, or most of a page could be computed for a 429."""
        return time.monotonic() + self.max_queue_age_s if first else 0.0

    def _done(self, part: Demand, client: str) -> None:
        """Only for finished work: devices report the computed part of failed and cancelled requests (`wasted`)."""
        for backlog in (self.models[part.model], self.all):
            if work := part.work:
                backlog.busy.finished(work)
                backlog.loaded.finished(work)
        self._count(part, -1, client)

    def wasted(self, model: str, tokens: int) -> None:
        """Counts work for cancelled requests: it took device time, and omitting it would understate the throughput."""
        for backlog in (self.models[model], self.all):
            backlog.busy.reported(tokens)
            backlog.loaded.reported(tokens)

    def reported_slots(self, model: str, device: str, slots: int) -> None:
        """Records the slots that a device reports for the model. The slots of a device that is down still count,
        since its process is respawned."""
        by_device = self._slots[model]
        if by_device.get(device) != slots:
            by_device[device] = slots
            self.models[model].slots = sum(by_device.values())

    def refuse_when_draining(self) -> None:
        if self.draining:
            raise EngineUnavailable("The service is shutting down; try again in a moment.", reason="draining")

    def check_room(self, requests: int = 1, tokens: int = 1) -> None:
        """Raises EngineUnavailable or Overloaded if so much would be refused for any model."""
        self.refuse_when_draining()
        if self.all.requests + requests > self.max_requests:
            raise self._overloaded("overloaded_requests", self.all)
        if self.tokens + tokens > self.max_tokens:
            raise self._overloaded("overloaded_tokens", self.all)
        free = self.max_requests - self.all.requests, self.max_tokens - self.tokens
        if (client := ORIGIN.get().client) and self.clients.exceeds(client, requests, tokens, *free):
            raise self._overloaded("overloaded_client", self.all, "Too many of your requests are unanswered")

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

    def _overloaded(self, reason: str, backlog: Backlog, what: str = "Too many requests right now") -> Overloaded:
        wait = backlog.retry_after_s()
        message = f"{what}; try again in {wait} second{'s' * (wait != 1)}."
        return Overloaded(message, retry_after_s=wait, reason=reason)

    def _count(self, demand: Demand, sign: int, client: str) -> None:
        self.tokens += sign * demand.read_tokens
        if client:
            self.clients.add(client, sign * demand.requests, sign * demand.read_tokens)
        model = self.models[demand.model]
        for backlog in (model, self.all):
            backlog.requests += sign * demand.requests
            backlog.work += sign * demand.work
            backlog.rows += sign * demand.rows
            backlog.busy.run(backlog.requests > 0)
        model.loaded.run(model.rows > model.slots)
        loaded = self.all.requests >= self.max_requests
        for backlog in self.models.values():  # a generator is slower, and this runs three times per sequence
            loaded = loaded or backlog.rows > backlog.slots
        self.all.loaded.run(loaded)

    def queue_s(self, model: str, sequences: int = 1) -> float:
        """Seconds until the last slot of a new request of so many sequences; see `Backlog.queue_s`."""
        return self.models[model].queue_s(sequences) if model in self.models else 0.0

    def retry_after_s(self, model: str) -> int:
        """Whole seconds until the model finishes its current work, 1 to 60."""
        return self.models[model].retry_after_s() if model in self.models else 1
