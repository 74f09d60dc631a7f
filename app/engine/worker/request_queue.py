"""The requests of one model on a device: a fair queue, the slots, deadlines, and which requests are prefilled
together."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import LoadedModel

SPARE_ENTRIES = 1024


class Deadlines:
    """`there` says whether a request is still there to be late. Those who left are dropped when their time comes, or
    when there are many of them. It is passed, and not kept: its owner must be freed as soon as nobody holds it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._most = SPARE_ENTRIES

    def add(self, when: float, request: int, there: Callable[[int], bool]) -> None:
        """when: CLOCK_MONOTONIC seconds."""
        heapq.heappush(self._heap, (when, request))
        if len(self._heap) > self._most:
            self._heap = [each for each in self._heap if there(each[1])]
            heapq.heapify(self._heap)
            self._most = SPARE_ENTRIES + 2 * len(self._heap)

    def passed(self, now: float, there: Callable[[int], bool]) -> list[int]:
        """Who is there and had until before now; each is named once."""
        found = []
        while self._heap and self._heap[0][0] < now:
            request = heapq.heappop(self._heap)[1]
            if there(request):
                found.append(request)
        return found

    def __len__(self) -> int:
        return len(self._heap)


MAX_OVERTAKES = 16
MAX_EXAMINED = 256  # of those who wait: a queue of thousands must not cost time at every step


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


class FairQueue:
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
        for ticket in itertools.islice(self._in_turn(), MAX_EXAMINED if rows >= narrowest and most > 0 else 0):
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
            waits_no_longer = held_up and held_up.overtaken + len(chosen) - before >= MAX_OVERTAKES
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


MAX_PADDING = 1.25  # times the real tokens; beyond it a group is split ...
SPARE_PADDING = 64  # ... unless it is only so many tokens: one call more costs more than they do
DOUBLING_S = 0.010


class ModelQueue:
    """One model's queue and what is in its slots."""

    def __init__(self, model: LoadedModel, prefill_tokens: int) -> None:
        self.model, self.prefill_tokens = model, prefill_tokens
        self.waiting = FairQueue()
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
        groups = groups_by_length(chosen)
        while len(chosen) > 1 and sum(map(padded_tokens, groups)) > self.prefill_tokens:
            chosen.pop()
            groups = groups_by_length(chosen)
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

    def statistics(self, name: str) -> m.ModelStatistics:
        """Since the last call."""
        done, self.tally = self.tally, m.Tally()
        return m.ModelStatistics(
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


def groups_by_length(tickets: Sequence[Ticket]) -> list[list[Ticket]]:
    """Groups whose padding stays small, the shortest first."""
    groups: list[list[Ticket]] = []
    real = 0
    for ticket in sorted(tickets, key=lambda each: each.tokens):
        together = padded_tokens([*groups[-1], ticket]) if groups else 0
        real += ticket.tokens
        if groups and together <= max(MAX_PADDING * real, real + SPARE_PADDING):
            groups[-1].append(ticket)
        else:
            groups.append([ticket])
            real = ticket.tokens
    return groups
