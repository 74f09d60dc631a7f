"""Batches streamed tokens into one message per interval; the first tokens of a stream leave at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from app.engine.protocol import messages as m
from models.decoding.options import TopTokens

T = TypeVar("T")


class TokenSender:
    """Holds tokens until the first of them has waited for `interval_s`; 0: one message per step.

    One interval for all streams of the process: the front end wakes once for all of them, and a stream is written to as
    often as the interval says, however fast the steps are. Times are CLOCK_MONOTONIC seconds. held: tokens by request.
    """

    def __init__(self, interval_s: float = 0.0) -> None:
        self._interval_s = interval_s
        self._begun: set[int] = set()  # requests whose first tokens have left
        self._immediate: set[int] = set()  # requests whose tokens leave with each step
        self.held: defaultdict[int, list[int]] = defaultdict(list)
        self._log_probabilities: defaultdict[int, list[float]] = defaultdict(list)  # of held tokens, where wanted
        self._top: defaultdict[int, list[TopTokens]] = defaultdict(list)  # likewise
        self._due = 0.0

    def add(
        self,
        tokens: Iterable[tuple[int, int]],
        now: float,
        log_probabilities: Mapping[int, float] = MappingProxyType({}),
        top: Mapping[int, TopTokens] = MappingProxyType({}),
    ) -> None:
        """(request, token) of one step, and by request, where it wants them, the log-probability of its token and the
        likeliest tokens at its place."""
        if not self.held:
            self._due = now + self._interval_s
        for request, token in tokens:
            self.held[request].append(token)
        for request, log_probability in log_probabilities.items():
            self._log_probabilities[request].append(log_probability)
        for request, likeliest in top.items():
            self._top[request].append(likeliest)

    def send_immediately(self, request: int) -> None:
        """From now on its tokens leave with each step."""
        self._immediate.add(request)

    def has_begun(self, request: int) -> bool:
        """Whether tokens of it have left."""
        return request in self._begun

    def end(self, request: int) -> None:
        """Forget a request that is over: what is still held is in its answer, or not wanted."""
        for held in (self.held, self._log_probabilities, self._top):
            held.pop(request, None)
        self._begun.discard(request)
        self._immediate.discard(request)

    def due(self, now: float, step_s: float) -> list[m.Tokens]:
        """What leaves now: everything, if the interval would be over before another step of that length; else the
        tokens of requests that have not begun, or may not wait."""
        if not self.held:
            return []
        if now + step_s >= self._due:
            return self.flush()
        return self._message([r for r in self.held if r not in self._begun or r in self._immediate])

    def flush(self) -> list[m.Tokens]:
        """All that is held, whether or not it is due."""
        return self._message(list(self.held))

    def _message(self, leaving: list[int]) -> list[m.Tokens]:
        self._begun.update(leaving)
        held = _take(self.held, leaving), _take(self._log_probabilities, leaving), _take(self._top, leaving)
        return [m.Tokens(*held)] if leaving else []


def _take(held: dict[int, T], requests: list[int]) -> dict[int, T]:
    return {request: held.pop(request) for request in requests if request in held}
