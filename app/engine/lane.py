"""One model's requests on a device: who waits, who holds rows, whose time is over, and who starts next.

Whose turn it is, `app.engine.waiting` says. Those that start together are prefilled in groups of similar length,
because a group is padded to its longest.

Where a step takes the longer the more rows it has, as on a CPU, a burst on an idle translator starts gradually:
twice as many requests may be running every DOUBLING_S. So the first of a page's 300 paragraphs comes about as fast as
alone, and the last one later by no more than the first few steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from app.engine import messages as m
from app.engine.deadlines import Deadlines
from app.engine.runner import Model
from app.engine.waiting import Ticket, Waiting

MOST_PADDING = 1.25  # times the real tokens; beyond it a group is split ...
SPARE_PADDING = 64  # ... unless it is only so many tokens: one call more costs more than they do
DOUBLING_S = 0.010


class Lane:
    """One model's queue and what is in its slots."""

    def __init__(self, model: Model, prefill_tokens: int) -> None:
        self.model, self.prefill_tokens = model, prefill_tokens
        self.waiting = Waiting()
        self.active: dict[int, Ticket] = {}
        self.steps = 0
        self.tally = m.Tally()
        self._fresh: list[Ticket] = []  # started, and no step made yet
        self._deadlines, self._starts = Deadlines(), Deadlines()
        self._numbers = itertools.count()
        self._idle_until = 0.0

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.active)

    @property
    def rows(self) -> int:
        return self.model.slots - self.model.decoder.free

    def add(self, request: m.Decode, now: float) -> None:
        if not self.busy:
            self._idle_until = now
        self.waiting.add(Ticket(request, next(self._numbers), now))
        self._deadlines.add(request.deadline, request.id, self._here)
        if request.start_by:
            self._starts.add(request.start_by, request.id, self._here)

    def remove(self, request: int) -> bool:
        """Whether it was here, waiting or running; its rows are free at once."""
        if self.waiting.pop(request) is not None:
            return True
        ticket = self.active.pop(request, None)
        if ticket is not None:
            self.model.leave(request)
            steps = self.steps - ticket.first_step
            self.tally.cancelled_tokens += ticket.tokens + steps * ticket.request.beam
            self.tally.cancelled_work += ticket.tokens + steps
        return ticket is not None

    def late(self, now: float) -> list[int]:
        """The requests whose deadline has passed; each is named once."""
        return self._deadlines.passed(now, self._here)

    def stale(self, now: float) -> list[int]:
        """Those who should have begun by now and never did; each is named once. Who begins again has had its turn."""
        passed = self._starts.passed(now, self.waiting.__contains__)
        return [request for request in passed if not self.waiting[request].began]

    def _here(self, request: int) -> bool:
        return request in self.waiting or request in self.active

    def take(self, now: float) -> list[list[Ticket]]:
        """Who starts now, in groups to prefill together: as many as there are free rows for, within the budget of
        padded tokens, but at least one."""
        chosen = self.waiting.choose(
            self.model.decoder.free, self._may_run(now) - len(self.active), self.prefill_tokens
        )
        groups = by_length(chosen)
        while len(chosen) > 1 and sum(map(padded_tokens, groups)) > self.prefill_tokens:
            chosen.pop()
            groups = by_length(chosen)
        self.waiting.start(chosen)
        for ticket in chosen:
            ticket.began = ticket.began or now
        return groups

    def _may_run(self, now: float) -> int:
        """Requests at once."""
        if not self.model.gradual:
            return self.model.slots
        doublings = min(32.0, (now - self._idle_until) / DOUBLING_S)
        return int(2.0**doublings)

    def started(self, tickets: Sequence[Ticket]) -> None:
        """A prefill has succeeded."""
        for ticket in tickets:
            self.active[ticket.request.id] = ticket
            ticket.first_step = self.steps
        self._fresh += tickets
        read = sum(ticket.tokens for ticket in tickets)
        self.tally.read_tokens += read
        self.tally.padded_tokens += padded_tokens(tickets) - read

    def stepped(self, rows: int, began: float, now: float) -> None:
        """A step has succeeded."""
        self.steps += 1
        self.tally.step_seconds.append(now - began)
        self.tally.step_rows += rows
        for ticket in self._fresh:
            ticket.first_token = now
        self._fresh.clear()

    def give_up_step(self) -> list[Ticket]:
        """A step has failed and the slots are lost. Those who have told nobody anything start once more, at the
        front of the queue; the others are returned."""
        lost = list(self.active.values())
        self.active.clear()
        self._fresh.clear()
        for ticket in sorted(lost, key=lambda each: each.number, reverse=True):
            if not ticket.emitted and not ticket.restarted:
                ticket.restarted = True
                self.waiting.add(ticket, first=True)
        return [ticket for ticket in lost if ticket.request.id not in self.waiting]

    def statistics(self, name: str) -> m.LaneStatistics:
        """Since the last call."""
        done, self.tally = self.tally, m.Tally()
        return m.LaneStatistics(
            model=name,
            slots=self.model.slots,
            rows=self.rows,
            active=len(self.active),
            waiting=len(self.waiting),
            done=done,
        )


def padded_tokens(group: Sequence[Ticket]) -> int:
    """What one prefill of these computes: everyone is as long as the longest."""
    source = max(len(ticket.request.source) for ticket in group)
    return len(group) * (source + max(len(ticket.request.prefix) for ticket in group))


def by_length(tickets: Sequence[Ticket]) -> list[list[Ticket]]:
    """Groups whose padding stays small, the shortest first."""
    groups: list[list[Ticket]] = []
    real = 0
    for ticket in sorted(tickets, key=lambda each: each.tokens):
        together = padded_tokens([*groups[-1], ticket]) if groups else 0
        real += ticket.tokens
        if groups and together <= max(MOST_PADDING * real, real + SPARE_PADDING):
            groups[-1].append(ticket)
        else:
            groups.append([ticket])
            real = ticket.tokens
    return groups
