"""How long the texts of a corpus are: quantiles and histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

SHARES = {"least": 0.0, "1 %": 0.01, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "most": 1.0}
BINS = 12  # of a histogram, at most; the last one is open


class Bin(TypedDict):
    """count: of the values from `at_least` up to the next bin's `at_least`."""

    at_least: int
    count: int


def lengths(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)


def quantiles(values: NDArray[np.int64] | NDArray[np.float64]) -> dict[str, float]:
    """{"median": …}; each is one of the values (the nearest below). {} of no values."""
    if not len(values):
        return {}
    found = np.quantile(values, list(SHARES.values()), method="lower")
    return {name: round(value, 3) for name, value in zip(SHARES, found.tolist(), strict=True)}


def bin_width(all_values: Sequence[NDArray[np.int64]]) -> int:
    """1, 2 or 5 times a power of ten, so that all but the longest 1 % fit into the closed bins."""
    longest = max((float(np.quantile(values, 0.99)) for values in all_values if len(values)), default=1.0)
    least = max(1.0, (longest + 1) / (BINS - 1))
    power = int(10 ** math.floor(math.log10(least)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def histogram(values: NDArray[np.int64], width: int) -> list[Bin]:
    places = np.minimum(values // width, BINS - 1)
    counts = np.bincount(places, minlength=1)
    return [{"at_least": place * width, "count": int(count)} for place, count in enumerate(counts)]
