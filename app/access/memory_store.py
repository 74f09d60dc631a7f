"""Usage counters per caller, in the memory of this process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.access.rate_limits import Period, Quota, Rate, Window, period_label

MAX_CALLERS = 200_000  # per window size; beyond that, the callers idle for longest are forgotten


class Charge(NamedTuple):
    """The cost of a request, charged all or nothing: `requests` per rate, `characters` per quota. A tuple for speed."""

    caller: str
    rates: Sequence[Rate]
    requests: int
    quotas: Sequence[Quota]
    characters: int


class ChargeResult(NamedTuple):
    """The answer to a `Charge`. charged: whether the cost fitted. windows, characters: usage after the charge."""

    charged: bool
    now_s: float
    windows: tuple[Window, ...]
    characters: tuple[int, ...]


class MemoryStore:
    """Counters of this server's lifetime; each method is atomic, so no more is charged than fits. clock: Unix time, of
    quotas; steady: seconds that nobody sets, of rates. A rate by the time of day would refuse a caller for as long as
    the clock is set back."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        max_callers: int = MAX_CALLERS,
    ) -> None:
        self._clock, self._steady, self._max_callers = clock, steady, max_callers
        # window in seconds -> caller -> (index of the span, count in it, count in the span before), oldest caller first
        self.windows: dict[int, OrderedDict[str, tuple[int, int, int]]] = {}
        self._characters: dict[tuple[str, Period], tuple[str, int]] = {}

    async def take(self, charge: Charge) -> ChargeResult:
        now, steady = self._clock(), self._steady()
        spans = [self._span(charge.caller, rate.window_s, steady) for rate in charge.rates]
        windows = [
            Window(rate, previous, current, steady)
            for rate, (_, current, previous) in zip(charge.rates, spans, strict=True)
        ]
        counted = [self._counted(charge.caller, quota.period, now) for quota in charge.quotas]
        fits = all(window.used + charge.requests <= window.rate.requests for window in windows) and all(
            used + charge.characters <= quota.characters for quota, used in zip(charge.quotas, counted, strict=True)
        )
        if fits:
            windows = [window._replace(current=window.current + charge.requests) for window in windows]
            for window, (index, *_) in zip(windows, spans, strict=True):
                self._keep(charge.caller, window.rate.window_s, (index, window.current, window.previous))
            counted = [used + charge.characters for used in counted]
            for quota, used in zip(charge.quotas, counted, strict=True):
                self._characters[charge.caller, quota.period] = period_label(quota.period, now), used
        return ChargeResult(fits, now, tuple(windows), tuple(counted))

    async def give_back(self, caller: str, quotas: Sequence[Quota], characters: int) -> None:
        now = self._clock()
        for quota in quotas:
            used = self._counted(caller, quota.period, now)
            self._characters[caller, quota.period] = period_label(quota.period, now), max(0, used - characters)

    async def characters(self, caller: str, period: Period) -> int:
        return self._counted(caller, period, self._clock())

    async def close(self) -> None:
        pass

    def _span(self, caller: str, window_s: int, steady: float) -> tuple[int, int, int]:
        index = int(steady // window_s)
        kept, current, previous = self.windows.setdefault(window_s, OrderedDict()).get(caller, (index, 0, 0))
        if kept == index:
            return kept, current, previous
        return index, 0, current if kept == index - 1 else 0

    def _keep(self, caller: str, window_s: int, span: tuple[int, int, int]) -> None:
        """Stores a span and forgets up to two callers that are idle for two windows, so that a flood is cleaned up."""
        spans = self.windows[window_s]
        spans[caller] = span
        spans.move_to_end(caller)
        for _ in range(2):
            oldest = next(iter(spans))
            if spans[oldest][0] >= span[0] - 1 and len(spans) <= self._max_callers:
                break
            del spans[oldest]

    def _counted(self, caller: str, period: Period, now: float) -> int:
        label, used = self._characters.get((caller, period), ("", 0))
        return used if label == period_label(period, now) else 0
