"""Batches streamed tokens into one message per interval; the first tokens of a stream leave at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from app.engine.protocol import messages as m
from models.decoding.options import TopTokens

T = TypeVar("T")
MOST_TOP_TOKENS = 1000  # of one message: the front end makes texts of them in some 3 ms, in which it does nothing else


class TokenSender:
    """Holds tokens until the oldest has waited for `interval_s`, or until it holds as many likeliest tokens (`top`) as
    one message takes; interval 0: one message per step. All streams of the process share one interval: the front end
    wakes once for all of them, and writes to a stream once per interval however fast the steps are. Times are
    CLOCK_MONOTONIC seconds. held: tokens by request; begun: requests with sent tokens; immediate: requests with tokens
    sent at every step."""

    def __init__(self, interval_s: float = 0.0) -> None:
        self._interval_s = interval_s
        self.begun: set[int] = set()
        self.immediate: set[int] = set()
        self.held: defaultdict[int, list[int]] = defaultdict(list)
        self._log_probabilities: defaultdict[int, list[float]] = defaultdict(list)  # of held tokens, if requested
        self._top: defaultdict[int, list[TopTokens]] = defaultdict(list)  # likewise
        self._top_tokens = 0  # that are held
        self._due = 0.0

    def add(
        self,
        tokens: Iterable[tuple[int, int]],
        now: float,
        log_probabilities: Mapping[int, float] = MappingProxyType({}),
        top: Mapping[int, TopTokens] = MappingProxyType({}),
    ) -> None:
        """Adds the (request, token) pairs of one step; log-probabilities and top tokens by request, if requested."""
        if not self.held:
            self._due, self._top_tokens = now + self._interval_s, 0
        for request, token in tokens:
            self.held[request].append(token)
        for request, log_probability in log_probabilities.items():
            self._log_probabilities[request].append(log_probability)
        for request, likeliest in top.items():
            self._top[request].append(likeliest)
            self._top_tokens += len(likeliest)
        if self._top_tokens >= MOST_TOP_TOKENS:
            self._due = now

    def end(self, request: int) -> None:
        """Forgets a finished request: its held tokens are in its answer or are not needed."""
        for held in (self.held, self._log_probabilities, self._top):
            held.pop(request, None)
        self.begun.discard(request)
        self.immediate.discard(request)

    def due(self, now: float, step_s: float) -> list[m.Tokens]:
        """The tokens to send now: all, if another step would overrun the interval; else first or immediate tokens."""
        if not self.held:
            return []
        if now + step_s >= self._due:
            return self.flush()
        return self._message([r for r in self.held if r not in self.begun or r in self.immediate])

    def flush(self) -> list[m.Tokens]:
        return self._message(list(self.held))

    def _message(self, leaving: list[int]) -> list[m.Tokens]:
        self.begun.update(leaving)
        held = _take(self.held, leaving), _take(self._log_probabilities, leaving), _take(self._top, leaving)
        return [m.Tokens(*held)] if leaving else []


def _take(held: dict[int, T], requests: list[int]) -> dict[int, T]:
    return {request: held.pop(request) for request in requests if request in held}
