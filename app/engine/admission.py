"""Who may come in: bounded requests, tokens and waiting time, decided before anything is sent to a device."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.engine.backlog import Backlog
from app.engine.errors import InvalidRequest, Overloaded


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request asks of one model, by its plain name. read_tokens: of its sources and prompts; new_tokens: how
    many it will probably write; rows: the slots that it needs, a beam of k counts k."""

    model: str
    requests: int
    read_tokens: int
    new_tokens: int
    rows: int

    @property
    def work(self) -> int:
        return self.read_tokens + self.new_tokens

    @classmethod
    def totals(cls, parts: Iterable[Demand]) -> list[Demand]:
        """One for each model that they are for."""
        sums: dict[str, list[int]] = {}
        for part in parts:
            total = sums.setdefault(part.model, [0, 0, 0, 0])
            for i, number in enumerate((part.requests, part.read_tokens, part.new_tokens, part.rows)):
                total[i] += number
        return [cls(model, *total) for model, total in sums.items()]


class Share:
    """The room that one request holds. A sequence of it that is answered gives its part back at once: else the last
    text of a page would keep others out as if all of the page were still to do."""

    def __init__(self, admission: Admission, demands: Iterable[Demand]) -> None:
        self._admission, self._held = admission, {demand.model: demand for demand in demands}

    def answered(self, part: Demand) -> None:
        held = self._held[part.model]
        self._held[part.model] = Demand(
            part.model,
            held.requests - part.requests,
            held.read_tokens - part.read_tokens,
            held.new_tokens - part.new_tokens,
            held.rows - part.rows,
        )
        self._admission.done(part)

    def rest(self) -> list[Demand]:
        """What nobody has given back; nothing is held any more."""
        rest, self._held = list(self._held.values()), {}
        return rest


class Admission:
    """Requests and tokens are bounded for all models together, waiting time for each: a model has its own slots and
    its own speed. slots: of one model on all devices."""

    def __init__(
        self, max_requests: int, max_tokens: int, *, slots: int = 64, max_queue_age_s: float = math.inf
    ) -> None:
        self.max_requests, self.max_tokens = max_requests, max_tokens
        self.slots, self.max_queue_age_s = slots, max_queue_age_s
        self.tokens = 0
        self.all = Backlog()
        self.models: defaultdict[str, Backlog] = defaultdict(Backlog)

    @property
    def requests(self) -> int:
        return self.all.requests

    @contextmanager
    def admitted(self, *demands: Demand) -> Iterator[Share]:
        """Room for all of it together, or Overloaded; InvalidRequest if it could never fit."""
        self._check(demands)
        for demand in demands:
            self.models[demand.model].open += 1
            self._count(demand, 1)
        share = Share(self, demands)
        try:
            yield share
            for rest in share.rest():
                self.done(rest)
        finally:
            for rest in share.rest():
                self._count(rest, -1)
            for demand in demands:
                self.models[demand.model].open -= 1

    def done(self, part: Demand) -> None:
        """Not for what failed or was cancelled: how much of that was done, the devices tell (`wasted`)."""
        for backlog in (self.models[part.model], self.all):
            backlog.finished(part.work)
        self._count(part, -1)

    def wasted(self, model: str, tokens: int) -> None:
        """So many were computed for requests that were cancelled. The time went into them, so they count: else a
        service that many clients leave would think itself slow, and refuse those who stay."""
        for backlog in (self.models[model], self.all):
            backlog.told(tokens)

    def _check(self, demands: tuple[Demand, ...]) -> None:
        requests, tokens = sum(each.requests for each in demands), sum(each.read_tokens for each in demands)
        if requests > self.max_requests or tokens > self.max_tokens:
            raise InvalidRequest(
                f"This asks for {requests} sequences of {tokens:,} tokens at once; the service"
                f" takes {self.max_requests} and {self.max_tokens:,}. Send it in parts."
            )
        if self.requests + requests > self.max_requests:
            raise self._overloaded("overloaded_requests", self.all)
        if self.tokens + tokens > self.max_tokens:
            raise self._overloaded("overloaded_tokens", self.all)
        for demand in demands:
            if self.queue_s(demand.model, demand.requests) > self.max_queue_age_s:
                raise self._overloaded("queue_age", self.models[demand.model])

    def check_room(self) -> None:
        """Overloaded if even the smallest request would be, whatever model it is for."""
        if self.requests >= self.max_requests:
            raise self._overloaded("overloaded_requests", self.all)
        if self.tokens >= self.max_tokens:
            raise self._overloaded("overloaded_tokens", self.all)

    def _overloaded(self, reason: str, backlog: Backlog) -> Overloaded:
        wait = backlog.retry_after_s()
        message = f"Too many requests right now; try again in {wait} second{'s' * (wait != 1)}."
        return Overloaded(message, retry_after_s=wait, reason=reason)

    def _count(self, demand: Demand, sign: int) -> None:
        self.tokens += sign * demand.read_tokens
        model = self.models[demand.model]
        for backlog in (model, self.all):
            backlog.count(sign * demand.requests, sign * demand.work, sign * demand.rows)
        model.loaded.run(model.rows > self.slots)
        full = self.requests >= self.max_requests
        self.all.loaded.run(full or any(each.rows > self.slots for each in self.models.values()))

    def queue_s(self, model: str, sequences: int = 1) -> float:
        """How long a new request of so many sequences would wait for its last slot; see `Backlog.queue_s`."""
        return self.models[model].queue_s(self.slots, sequences) if model in self.models else 0.0

    def retry_after_s(self, model: str) -> int:
        """When that model will have done what it has, in whole seconds; 1 to 60."""
        return self.models[model].retry_after_s() if model in self.models else 1
