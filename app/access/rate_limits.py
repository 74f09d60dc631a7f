"""Rates and quotas: their notation, and the sliding-window counter. A window is two counters: the count of the current
clock span and the count of the previous span, weighted by the part of it that the window still covers. Exact for evenly
spaced requests, with two numbers per caller; an exact window would store the time of every request."""

from __future__ import annotations

import math
import re
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
