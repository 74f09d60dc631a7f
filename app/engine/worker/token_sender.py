"""Batches streamed tokens into one message per interval; the first tokens of a stream leave at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from app.engine.protocol import messages as m


class TokenSender:
    """Holds tokens until a round is due, `interval_s` after the first that waits for it; 0: with every step.

    One round for all requests of the process: the front end wakes once for all of them, and a stream is written to as
    often as the interval says, however fast the steps are. Times are CLOCK_MONOTONIC seconds.
    """

    def __init__(self, interval_s: float = 0.0) -> None:
        self._interval_s = interval_s
        self._begun: set[int] = set()  # requests whose first tokens have left
        self._at_once: set[int] = set()  # whose tokens wait for no round
        self._held: defaultdict[int, list[int]] = defaultdict(list)
        self._nats: defaultdict[int, list[float]] = defaultdict(list)  # of the tokens held, for those who asked
        self._top: defaultdict[int, list[m.TopTokens]] = defaultdict(list)  # likewise
        self._due = 0.0

    def hold(
        self,
        tokens: Iterable[tuple[int, int]],
        now: float,
        log_probabilities: Mapping[int, float] | None = None,
        top: Mapping[int, Sequence[tuple[int, float]]] | None = None,
    ) -> None:
        """(request, token) of one step, and by request the log-probability of its token where it asked for that, and
        the likeliest at its place."""
        if not self._held:
            self._due = now + self._interval_s
        held = self._held
        for request, token in tokens:
            held[request].append(token)
        if log_probabilities:
            for request, nats in log_probabilities.items():
                self._nats[request].append(nats)
        if top:
            for request, likely in top.items():
                self._top[request].append(list(likely))

    def hurry(self, request: int) -> None:
        """From now on its tokens leave with each step."""
        self._at_once.add(request)

    def has_begun(self, request: int) -> bool:
        """Whether a part of it has left."""
        return request in self._begun

    def end(self, request: int) -> None:
        """It is over: what is still held of it is in its answer, or nobody waits for it."""
        self._held.pop(request, None)
        self._nats.pop(request, None)
        self._top.pop(request, None)
        self._begun.discard(request)
        self._at_once.discard(request)

    def leaving(self, now: float, step_s: float) -> list[m.Tokens]:
        """What leaves now: everything, if the round would be over before another step of that length is; or else
        what requests have that have not begun, or may not wait."""
        if not self._held:
            return []
        if now + step_s >= self._due:
            return self.flush()
        leaving = [each for each in self._held if each not in self._begun or each in self._at_once]
        return self._told({request: self._held.pop(request) for request in leaving})

    def flush(self) -> list[m.Tokens]:
        """All that is held, whether or not it is due."""
        held = dict(self._held)
        self._held.clear()
        return self._told(held)

    def _told(self, tokens: dict[int, list[int]]) -> list[m.Tokens]:
        self._begun.update(tokens)
        if not tokens:
            return []
        nats = {request: self._nats.pop(request) for request in tokens if request in self._nats} if self._nats else {}
        top = {request: self._top.pop(request) for request in tokens if request in self._top} if self._top else {}
        return [m.Tokens(tokens, nats, top)]
