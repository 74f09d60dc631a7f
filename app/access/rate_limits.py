"""Rates and quotas: their notation, the sliding-window counter, and usage by caller in the memory of this process.

A window is two counters: the count of the current clock span and the count of the previous span, weighted by the part
of it that the window still covers. Exact for evenly spaced requests, with two numbers per caller; an exact window would
store the time of every request."""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

Period = Literal["day", "month"]
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_ROUNDING_S = 1e-5  # rounding error of a double after 10^9 seconds; a client that waits `wait_s` is admitted
_NO_LIMIT = "none"
MAX_COUNT = 10**12  # a double counts this far exactly


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `requests` per `unit`."""

    requests: int
    unit: str

    @property
    def window_s(self) -> int:
        return _SECONDS[self.unit]


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `characters` per calendar period (UTC)."""

    characters: int
    period: Period


class Window(NamedTuple):
    """The usage of one rate."""

    rate: Rate
    previous: int
    current: int
    now_s: float

    @property
    def used(self) -> int:
        """Requests in the window; the same formula as in `take.lua`."""
        span = self.rate.window_s
        return math.floor(self.previous * (1 - (self.now_s % span) / span)) + self.current

    @property
    def remaining(self) -> int:
        return max(0, self.rate.requests - self.used)

    def wait_s(self, cost: int) -> int:
        """Whole seconds until `cost` more requests fit; 0 if they fit now. cost is at most the rate."""
        limit, span = self.rate.requests, self.rate.window_s
        if self.used + cost <= limit:
            return 0
        into = self.now_s % span
        room = limit - cost
        if self.current <= room:  # wait until the previous span has faded
            return int((1 - (room - self.current + 1) / self.previous) * span - into + _ROUNDING_S) + 1
        return int(span - into + max(0.0, 1 - (room + 1) / self.current) * span + _ROUNDING_S) + 1


def parse_rates(text: str) -> tuple[Rate, ...]:
    """Parses "60/minute;1000/hour"; () for "none" and "". The ValueError's message is part of a sentence."""
    return tuple(Rate(count, unit) for count, unit in _limits_of(text, tuple(_SECONDS), "60/minute;1000/hour"))


def parse_quotas(text: str) -> tuple[Quota, ...]:
    """Parses "500000/month;50000/day"; () for "none" and ""."""
    periods: dict[str, Period] = {"day": "day", "month": "month"}
    limits = _limits_of(text, tuple(periods), "500000/month;50000/day")
    return tuple(Quota(count, periods[unit]) for count, unit in limits)


def _limits_of(text: str, units: tuple[str, ...], example: str) -> list[tuple[int, str]]:
    limits: dict[str, int] = {}
    for part in text.split(";") if text.strip() not in ("", _NO_LIMIT) else ():
        match = re.fullmatch(rf"\s*(\d{{1,13}})\s*/\s*({'|'.join(units)})\s*", part, re.ASCII)
        if not match or not 0 < int(match[1]) <= MAX_COUNT:
            raise ValueError(
                f'it takes a number from 1 per {", ".join(units[:-1])} or {units[-1]}, such as "{example}"'
            )
        if match[2] in limits:
            raise ValueError(f'it has two limits per {match[2]}; it takes one, such as "{example}"')
        limits[match[2]] = int(match[1])
    return [(count, unit) for unit, count in limits.items()]


def period_label(period: Period, now_s: float) -> str:
    """2026-11 or 2026-11-22."""
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m" if period == "month" else "%Y-%m-%d")


def period_ends_in_s(period: Period, now_s: float) -> int:
    """Whole seconds until the period ends, at least 1."""
    now = datetime.fromtimestamp(now_s, UTC)
    start = now.replace(hour=0, minute=0, second=0, microsecond=0)
    end = start + timedelta(days=1) if period == "day" else (start.replace(day=1) + timedelta(days=32)).replace(day=1)
    return max(1, math.ceil((end - now).total_seconds()))


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
