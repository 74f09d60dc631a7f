"""Percentiles of times, and a rate of differing answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed: no interpolation, so that a
    p99.9 of few values is their largest."""
    assert values, "no values"
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def percentiles_ms(seconds: Iterable[float]) -> dict[str, float] | None:
    """p50, p90, p99 and p99.9 in milliseconds; None without values."""
    values = list(seconds)
    if not values:
        return None
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
    return {name: round(1000 * percentile(values, share), 1) for name, share in shares.items()}


def differing(some: Sequence[Any], others: Sequence[Any]) -> float:
    """The share of places where two equally long sequences differ."""
    assert len(some) == len(others) and some, "two sequences of one length"
    return sum(a != b for a, b in zip(some, others, strict=True)) / len(some)
