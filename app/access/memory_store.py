"""Usage of each caller, counted in this process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from app.access.rate_limits import Period, Quota, Rate, Window, period_label, used_in_window

MAX_CALLERS = 200_000  # of whom each window knows: beyond that, those who have not come for longest are forgotten


class Charge(NamedTuple):
    """What one request would take: so many requests of each rate, so many characters of each quota. All or nothing.
    It and the like are tuples, for one of each is made for every request."""

    caller: str
    rates: Sequence[Rate]
    requests: int
    quotas: Sequence[Quota]
    characters: int


class ChargeResult(NamedTuple):
    """charged: whether it fitted. windows, characters: as they are then, in the order of the rates and quotas."""

    charged: bool
    now_s: float
    windows: tuple[Window, ...]
    characters: tuple[int, ...]


class UsageStore(Protocol):
    """Each is atomic: of requests that come together, exactly so many get through as fit."""

    async def take(self, ask: Charge) -> ChargeResult: ...

    async def give_back(self, caller: str, quotas: Sequence[Quota], characters: int) -> None: ...

    async def characters(self, caller: str, period: Period) -> int: ...

    async def close(self) -> None: ...


class MemoryStore:
    """For one server, until it ends. `clock` gives seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time, most_callers: int = MAX_CALLERS) -> None:
        self._clock, self._most = clock, most_callers
        # by window: caller -> (number of the span, taken in it, taken in the one before), the longest silent first
        self._windows: dict[int, OrderedDict[str, tuple[int, int, int]]] = {}
        self._characters: dict[tuple[str, Period], tuple[str, int]] = {}

    async def take(self, ask: Charge) -> ChargeResult:
        return self.take_now(ask)

    def take_now(self, ask: Charge) -> ChargeResult:
        now, fits = self._clock(), True
        spans = [self._span(ask.caller, rate.window_s, now) for rate in ask.rates]
        for rate, (_, current, previous) in zip(ask.rates, spans, strict=True):
            if used_in_window(previous, current, now, rate.window_s) + ask.requests > rate.requests:
                fits = False
        counted = [self._counted(ask.caller, quota.period, now) for quota in ask.quotas]
        for quota, have in zip(ask.quotas, counted, strict=True):
            if have + ask.characters > quota.characters:
                fits = False
        if fits:
            spans = [(index, current + ask.requests, previous) for index, current, previous in spans]
            for rate, span in zip(ask.rates, spans, strict=True):
                self._keep(ask.caller, rate.window_s, span)
            counted = [have + ask.characters for have in counted]
            for quota, have in zip(ask.quotas, counted, strict=True):
                self._characters[ask.caller, quota.period] = period_label(quota.period, now), have
        windows = [
            Window(rate, previous, current, now) for rate, (_, current, previous) in zip(ask.rates, spans, strict=True)
        ]
        return ChargeResult(fits, now, tuple(windows), tuple(counted))

    async def give_back(self, caller: str, quotas: Sequence[Quota], characters: int) -> None:
        now = self._clock()
        for quota in quotas:
            have = self._counted(caller, quota.period, now)
            self._characters[caller, quota.period] = period_label(quota.period, now), max(0, have - characters)

    async def characters(self, caller: str, period: Period) -> int:
        return self._counted(caller, period, self._clock())

    async def close(self) -> None:
        pass

    def __len__(self) -> int:
        """Windows that are kept."""
        return sum(len(spans) for spans in self._windows.values())

    def _span(self, caller: str, window_s: int, now: float) -> tuple[int, int, int]:
        index = int(now // window_s)
        then, current, previous = self._windows.setdefault(window_s, OrderedDict()).get(caller, (index, 0, 0))
        if then >= index:  # later: the clock was set back
            return then, current, previous
        return index, 0, current if then == index - 1 else 0

    def _keep(self, caller: str, window_s: int, span: tuple[int, int, int]) -> None:
        """Also forgets who has not come for two windows: a flood's traces are gone as the flood is."""
        spans = self._windows[window_s]
        spans[caller] = span
        spans.move_to_end(caller)
        for _ in range(2):
            oldest = next(iter(spans))
            if spans[oldest][0] >= span[0] - 1 and len(spans) <= self._most:
                break
            del spans[oldest]

    def _counted(self, caller: str, period: Period, now: float) -> int:
        then, have = self._characters.get((caller, period), ("", 0))
        return have if then == period_label(period, now) else 0
