"""The requests of one model on a device: a fair queue, the slots, deadlines, and the batches for prefill.

A request may have many sequences: a page of 300 texts, 8 samples of a song. Every second start goes to the sequence
that has waited longest; the other starts go to the requests in turn. So a page delays a short request by a start or
two, and an endless run of short requests slows a page down to half at most. The sequences of one request start in
order; requests of one sequence start in order of arrival.

A sequence that needs more rows than are free (a beam) lets at most MAX_OVERTAKES others pass; then rows are reserved
for it as they become free."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import LoadedModel
from models.interface import Prompt

MAX_OVERTAKES = 16
MAX_EXAMINED = 256  # waiting sequences per choice, so that a long queue costs no more per step
MAX_PADDING = 1.25  # ratio to the real tokens; beyond it a prefill is split ...
SPARE_PADDING = 64  # ... unless there are only so many padding tokens, which cost less than another call
DOUBLING_S = 0.010
PREFILL_S = 0.05  # of a prefill while other sequences are running, which wait for their next token meanwhile
SPARE_DEADLINES = 1024


@dataclass(slots=True, eq=False)
class Ticket:
    """One sequence from arrival to end. Times: CLOCK_MONOTONIC seconds. rows: slots that it needs; tokens: of its
    prefill; group: shared by the sequences of one request, which take turns with other groups."""

    request: m.Decode
    number: int
    arrived: float
    prompt: Prompt
    rows: int
    tokens: int
    group: int
    state: Literal["waiting", "running", "gone"] = "waiting"
    began: float = 0.0
    first_token: float = 0.0
    first_step: int = 0
    overtaken: int = 0
    restarted: bool = False

    def timing(self, now: float) -> m.Timing:
        return m.Timing(self.began - self.arrived, self.first_token - self.arrived, now - self.arrived)


class FairQueue:
    """The waiting sequences of one model by message id; removal is O(1)."""

    def __init__(self) -> None:
        self._tickets: OrderedDict[int, Ticket] = OrderedDict()  # the longest waiting first
        self._groups: OrderedDict[int, OrderedDict[int, Ticket]] = OrderedDict()  # the next group first
        self._widths: Counter[int] = Counter()  # rows -> number of tickets that need so many
        self._group_turn = False  # whether the next start goes to a group or to the longest waiting
        self._held_up: Ticket | None = None  # the first ticket that needs more rows than are free
        self._ahead_of_held_up = 0  # tickets chosen before it in the last choice

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tickets)

    def add(self, ticket: Ticket, *, first: bool = False) -> None:
        """first: at the front of the queue, for a sequence that restarts."""
        request = ticket.request.id
        self._tickets[request] = ticket
        self._widths[ticket.rows] += 1
        self._groups.setdefault(ticket.group, OrderedDict())[request] = ticket
        if first:
            self._tickets.move_to_end(request, last=False)
            self._groups.move_to_end(ticket.group, last=False)

    def pop(self, request: int) -> Ticket | None:
        """Removes a sequence; None if it is not waiting."""
        ticket = self._tickets.pop(request, None)
        if ticket is not None:
            siblings = self._groups[ticket.group]
            del siblings[request]
            if not siblings:
                del self._groups[ticket.group]
            self._widths[ticket.rows] -= 1
            if not self._widths[ticket.rows]:
                del self._widths[ticket.rows]
            if ticket is self._held_up:
                self._held_up = None
        return ticket

    def choose(self, rows: int, limit: int, budget: int) -> list[Ticket]:
        """The next to start: as many as fit the free rows, `limit` and the token budget, at least one if any fits."""
        chosen: list[Ticket] = []
        held_up, ahead, narrowest = self._held_up, 0, min(self._widths, default=1)
        tickets = self._in_turn() if len(self._tickets) > 1 else iter(self._tickets.values())
        for ticket in itertools.islice(tickets, MAX_EXAMINED if rows >= narrowest and limit > 0 else 0):
            if ticket.rows > rows:
                if held_up is None:
                    held_up, ahead = ticket, len(chosen)
            elif chosen and ticket.tokens > budget:
                break
            else:
                held_up = None if ticket is held_up else held_up
                chosen.append(ticket)
                rows -= ticket.rows
                budget -= ticket.tokens
            overtaken_enough = held_up and held_up.overtaken + len(chosen) - ahead >= MAX_OVERTAKES
            if rows < narrowest or len(chosen) >= limit or overtaken_enough:
                break
        self._held_up, self._ahead_of_held_up = held_up, ahead
        return chosen

    def start(self, chosen: Sequence[Ticket]) -> None:
        """Removes chosen tickets, or the first of them, from the queue and passes the turn on."""
        for ticket in chosen:
            self.pop(ticket.request.id)
            if ticket.group in self._groups:
                self._groups.move_to_end(ticket.group)
            self._group_turn = not self._group_turn
        if self._held_up is not None:
            self._held_up.overtaken += max(0, len(chosen) - self._ahead_of_held_up)

    def _in_turn(self) -> Iterator[Ticket]:
        """All waiting sequences in the order in which they may start."""
        seen = set()
        if self._held_up is not None:
            seen.add(self._held_up.request.id)
            yield self._held_up
        orders = [iter(self._tickets.values()), self._rounds()]
        turn = int(self._group_turn)
        while len(seen) < len(self._tickets):
            ticket = next(ticket for ticket in orders[turn] if ticket.request.id not in seen)
            seen.add(ticket.request.id)
            turn = 1 - turn
            yield ticket

    def _rounds(self) -> Iterator[Ticket]:
        """The first sequence of every group, then the second ones, and so on."""
        groups: Iterable[Iterator[Ticket]] = (iter(group.values()) for group in self._groups.values())
        while True:
            left = []
            for sequences in groups:
                if ticket := next(sequences, None):
                    left.append(sequences)
                    yield ticket
            if not left:
                return
            groups = left


class Deadlines:
    """Tickets by expiry time. Gone tickets are dropped on expiry or in bulk, to keep the check per step cheap."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Ticket]] = []
        self._limit = SPARE_DEADLINES

    def add(self, when: float, ticket: Ticket) -> None:
        heapq.heappush(self._heap, (when, ticket.number, ticket))
        if len(self._heap) > self._limit:
            self._heap = [entry for entry in self._heap if entry[2].state != "gone"]
            heapq.heapify(self._heap)
            self._limit = SPARE_DEADLINES + 2 * len(self._heap)

    def passed(self, now: float) -> list[Ticket]:
        """Expired tickets that are not gone, once each."""
        tickets = []
        while self._heap and self._heap[0][0] < now:
            ticket = heapq.heappop(self._heap)[2]
            if ticket.state != "gone":
                tickets.append(ticket)
        return tickets


class ModelQueue:
    """One model's waiting and active sequences. prefill_tokens: padded tokens to prefill between two steps; fewer where
    they would take longer than PREFILL_S, at the speed of the prefills before, while others are running. Where a
    step takes longer with more rows (CPU), a burst on an idle translator ramps up: the number of running sequences may
    double every DOUBLING_S. The first of a page's 300 paragraphs then takes about as long as alone, and the last is
    later only by the first few steps."""

    def __init__(self, model: LoadedModel, prefill_tokens: int) -> None:
        self.model, self.prefill_tokens = model, prefill_tokens
        self.waiting = FairQueue()
        self.active: dict[int, Ticket] = {}
        self.steps = 0
        self.tally = m.Tally()
        self._fresh: list[Ticket] = []  # prefilled, but not stepped yet
        self._first_step: list[Ticket] = []  # tickets whose first step is submitted and not yet read
        self._deadlines, self._start_limits = Deadlines(), Deadlines()
        self._numbers = itertools.count()
        self._idle_until = 0.0
        self._seconds_per_token = 0.0  # of prefills, a moving average; 0: not known yet

    @property
    def busy(self) -> bool:
        return bool(self.active or len(self.waiting))

    @property
    def rows(self) -> int:
        return self.model.slots - self.model.decoder.free

    def add(self, request: m.Decode, now: float) -> None:
        if not self.busy:
            self._idle_until = now
        tokens = len(request.source) + len(request.prefix)
        group = -request.siblings or request.id
        prompt = Prompt(tuple(request.source), tuple(request.prefix))
        ticket = Ticket(request, next(self._numbers), now, prompt, request.options.beam, tokens, group)
        self.waiting.add(ticket)
        self._deadlines.add(request.deadline, ticket)
        if request.start_by:
            self._start_limits.add(request.start_by, ticket)

    def remove(self, request: int) -> bool:
        """Removes a waiting or running sequence and frees its rows; False if it is not in this queue."""
        if (ticket := self.waiting.pop(request)) is None:
            if (ticket := self.active.pop(request, None)) is None:
                return False
            self.model.decoder.leave(request)
            steps = self.steps - ticket.first_step
            self.tally.cancelled_tokens += ticket.tokens + steps * ticket.rows
            self.tally.cancelled_work += ticket.tokens + steps
        ticket.state = "gone"
        return True

    def finish(self, request: int) -> Ticket:
        """Records the end of a sequence; the decoder has already freed its rows."""
        ticket = self.active.pop(request)
        ticket.state = "gone"
        return ticket

    def late(self, now: float) -> list[int]:
        """Requests past their deadline, once each."""
        return [ticket.request.id for ticket in self._deadlines.passed(now)]

    def stale(self, now: float) -> list[int]:
        """Requests past their `start_by` that never started, once each."""
        return [ticket.request.id for ticket in self._start_limits.passed(now) if not ticket.began]

    def take(self, now: float) -> list[list[Ticket]]:
        """Starts sequences within the free rows and the padded-token budget, at least one, grouped for prefill."""
        limit = self.model.slots
        if self.model.gradual:
            limit = int(2.0 ** min(32.0, (now - self._idle_until) / DOUBLING_S)) - len(self.active)
        budget = self._prefill_budget()
        chosen = self.waiting.choose(self.model.decoder.free, limit, budget)
        if not chosen:
            return []
        groups = groups_by_length(chosen) if len(chosen) > 1 else [chosen]  # usually one request starts
        while len(chosen) > 1 and sum(map(padded_tokens, groups)) > budget:
            chosen.pop()
            groups = groups_by_length(chosen)
        self.waiting.start(chosen)
        for ticket in chosen:
            ticket.began = ticket.began or now
        return groups

    def _prefill_budget(self) -> int:
        if not self.active or not self._seconds_per_token:
            return self.prefill_tokens
        return min(self.prefill_tokens, int(PREFILL_S / self._seconds_per_token))

    def started(self, tickets: Sequence[Ticket], seconds: float = 0.0) -> None:
        """The tickets' prefill, as one group, has ended and took so long; 0: that is not known."""
        if seconds:
            speed, known = seconds / padded_tokens(tickets), self._seconds_per_token
            self._seconds_per_token = (known + speed) / 2 if known else speed
        read = 0
        for ticket in tickets:
            self.active[ticket.request.id] = ticket
            ticket.state, ticket.first_step = "running", self.steps
            read += ticket.tokens
        self._fresh += tickets
        self.tally.read_tokens += read
        if len(tickets) > 1:
            self.tally.padded_tokens += padded_tokens(tickets) - read

    def stepped(self, rows: int, began: float, now: float, *, late: bool = False, steps: int = 1) -> None:
        """Counts `steps` steps of `rows` rows each and sets the time of first tokens. late: the results are of the
        previous step (`StepResult.late`), so tickets that joined the latest step have no token yet."""
        self.steps += steps
        self.tally.step_seconds += [(now - began) / steps] * steps
        self.tally.step_rows += rows * steps
        if self._fresh or self._first_step:
            first = self._first_step if late else self._first_step + self._fresh
            for ticket in first:
                ticket.first_token = now
            self._first_step, self._fresh = (self._fresh if late else []), []

    def give_up_step(self, begun: Container[int] = ()) -> list[Ticket]:
        """Handles a failed step, after which all slots are lost. Sequences go back to the front of the queue, except
        the returned ones, which have restarted before or have sent tokens (`begun`)."""
        lost = sorted(self.active.values(), key=lambda ticket: -ticket.number)
        self.active.clear()
        self._fresh.clear()
        self._first_step.clear()
        failed = []
        for ticket in lost:
            if ticket.restarted or ticket.request.id in begun:
                ticket.state = "gone"
                failed.append(ticket)
            else:
                ticket.state, ticket.restarted, ticket.group = "waiting", True, ticket.request.id  # its turn is past
                self.waiting.add(ticket, first=True)
        return failed[::-1]

    def statistics(self, name: str) -> m.ModelStatistics:
        """The load, and the work since the last call."""
        done, self.tally = self.tally, m.Tally()
        return m.ModelStatistics(name, self.model.slots, self.rows, len(self.active), len(self.waiting), done)


def padded_tokens(group: Sequence[Ticket]) -> int:
    """Tokens that one prefill of the group computes, with all rows padded to the longest."""
    source = max(len(ticket.request.source) for ticket in group)
    return len(group) * (source + max(len(ticket.request.prefix) for ticket in group))


def groups_by_length(tickets: Sequence[Ticket]) -> list[list[Ticket]]:
    """Prefill groups with little padding, shortest first."""
    groups: list[list[Ticket]] = []
    real = 0
    for ticket in sorted(tickets, key=lambda ticket: ticket.tokens) if len(tickets) > 1 else tickets:
        together = padded_tokens([*groups[-1], ticket]) if groups else 0
        real += ticket.tokens
        if groups and together <= max(MAX_PADDING * real, real + SPARE_PADDING):
            groups[-1].append(ticket)
        else:
            groups.append([ticket])
            real = ticket.tokens
    return groups
