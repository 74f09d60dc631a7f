"""Who waits for rows of one model, and whose turn it is.

A request may bring many sequences: a page of 300 texts, 8 samples of a song. Every second start is that of the
sequence that has waited longest; between them the requests take turns, each with its next sequence. So a page holds
up a short request by a start or two, and short requests that never end slow a page down to half at most. A request's
own sequences start in order; requests of one sequence start in order of arrival.

One that needs more rows than are free (a beam) lets at most MOST_OVERTAKES others pass, and then the rows that become
free wait for it.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.engine import messages as m

MOST_OVERTAKES = 16
LOOKED_AT = 256  # of those who wait: a queue of thousands must not cost time at every step


@dataclass(slots=True, eq=False)
class Ticket:
    """A sequence on its way. Times are CLOCK_MONOTONIC seconds."""

    request: m.Decode
    number: int
    arrived: float
    began: float = 0.0
    first_token: float = 0.0
    first_step: int = 0
    overtaken: int = 0
    emitted: bool = False
    restarted: bool = False

    @property
    def tokens(self) -> int:
        """How many a prefill reads."""
        return len(self.request.source) + len(self.request.prefix)

    @property
    def turns(self) -> int:
        """With whom it shares its turns: its siblings, or nobody. Who starts again has had its turn."""
        return self.request.id if self.restarted or not self.request.siblings else -self.request.siblings

    def timing(self, now: float) -> m.Timing:
        return m.Timing(self.began - self.arrived, self.first_token - self.arrived, now - self.arrived)


class Waiting:
    """By the ids of their messages; everyone leaves in O(1) from anywhere."""

    def __init__(self) -> None:
        self._tickets: OrderedDict[int, Ticket] = OrderedDict()  # who has waited longest first
        self._requests: OrderedDict[int, OrderedDict[int, Ticket]] = OrderedDict()  # whose turn is next first
        self._widths: Counter[int] = Counter()  # how many need so many rows
        self._requests_turn = False  # or that of who has waited longest
        self._held_up: Ticket | None = None  # who needs more rows than there are
        self._before = 0  # of those chosen last, how many came before it

    def __contains__(self, request: int) -> bool:
        return request in self._tickets

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tickets)

    def __getitem__(self, request: int) -> Ticket:
        return self._tickets[request]

    def add(self, ticket: Ticket, *, first: bool = False) -> None:
        """first: before all others, such as who starts again."""
        request, key = ticket.request.id, ticket.turns
        self._tickets[request] = ticket
        self._widths[ticket.request.beam] += 1
        self._requests.setdefault(key, OrderedDict())[request] = ticket
        if first:
            self._tickets.move_to_end(request, last=False)
            self._requests.move_to_end(key, last=False)

    def pop(self, request: int) -> Ticket | None:
        """It waits no longer; None if it did not."""
        ticket = self._tickets.pop(request, None)
        if ticket is not None:
            siblings = self._requests[ticket.turns]
            del siblings[request]
            self._leave_width(ticket.request.beam)
            if not siblings:
                del self._requests[ticket.turns]
            if ticket is self._held_up:
                self._held_up = None
        return ticket

    def _leave_width(self, rows: int) -> None:
        self._widths[rows] -= 1
        if not self._widths[rows]:
            del self._widths[rows]

    def choose(self, rows: int, most: int, budget: int) -> list[Ticket]:
        """Who may start, in turn: as many as there are rows for, at most so many, and of no more tokens than the
        budget, but at least one."""
        chosen: list[Ticket] = []
        held_up, before, narrowest = self._held_up, 0, min(self._widths, default=1)
        for ticket in itertools.islice(self._in_turn(), LOOKED_AT if rows >= narrowest and most > 0 else 0):
            if ticket.request.beam > rows:
                if held_up is None:
                    held_up, before = ticket, len(chosen)
            elif chosen and ticket.tokens > budget:
                break
            else:
                held_up = None if ticket is held_up else held_up
                chosen.append(ticket)
                rows -= ticket.request.beam
                budget -= ticket.tokens
            waits_no_longer = held_up and held_up.overtaken + len(chosen) - before >= MOST_OVERTAKES
            if rows < narrowest or len(chosen) >= most or waits_no_longer:
                break
        self._held_up, self._before = held_up, before
        return chosen

    def start(self, chosen: Sequence[Ticket]) -> None:
        """These begin: the first of those who were just chosen."""
        for ticket in chosen:
            self.pop(ticket.request.id)
            if ticket.turns in self._requests:
                self._requests.move_to_end(ticket.turns)
            self._requests_turn = not self._requests_turn
        if self._held_up is not None:
            self._held_up.overtaken += max(0, len(chosen) - self._before)

    def _in_turn(self) -> Iterator[Ticket]:
        """Everyone once, in the order in which they may start."""
        seen = set()
        if self._held_up is not None:
            seen.add(self._held_up.request.id)
            yield self._held_up
        orders = [iter(self._tickets.values()), self._rounds()]
        turn = int(self._requests_turn)
        while len(seen) < len(self._tickets):
            ticket = next(each for each in orders[turn] if each.request.id not in seen)
            seen.add(ticket.request.id)
            turn = 1 - turn
            yield ticket

    def _rounds(self) -> Iterator[Ticket]:
        """The first sequence of each request, then the second of each, and so on."""
        requests = (iter(each.values()) for each in self._requests.values())
        while True:
            left = []
            for sequences in requests:
                if ticket := next(sequences, None):
                    left.append(sequences)
                    yield ticket
            if not left:
                return
            requests = (each for each in left)
