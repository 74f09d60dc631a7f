"""Quantiles and histograms, against hand-made ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.corpus_statistics import BINS, bin_width, histogram, lengths, quantiles


def test_quantiles_are_values_of_the_corpus() -> None:
    assert quantiles(lengths(range(1, 101))) == {
        "least": 1,
        "1 %": 1,
        "5 %": 5,
        "median": 50,
        "95 %": 95,
        "99 %": 99,
        "most": 100,
    }
    assert quantiles(lengths([])) == {}
    assert quantiles(np.array([0.12345, 0.98765]))["most"] == 0.988


def test_the_last_bin_is_open() -> None:
    counts = histogram(lengths([0, 4, 5, 9, 54, 55, 1000]), 5)
    assert counts[:2] == [{"at_least": 0, "count": 2}, {"at_least": 5, "count": 2}]
    assert counts[10:] == [{"at_least": 50, "count": 1}, {"at_least": 55, "count": 2}]
    assert len(counts) == BINS


@pytest.mark.parametrize(
    ("values", "width"), [([], 1), ([0], 1), ([10] * 99, 1), ([11] * 99, 2), ([50] * 99, 5), ([120] * 99, 20)]
)
def test_widths_are_round(values: list[int], width: int) -> None:
    assert bin_width([lengths(values)]) == width


@given(st.lists(st.integers(0, 10_000), min_size=1))
def test_every_value_is_in_one_bin_and_nearly_all_in_closed_ones(numbers: list[int]) -> None:
    values = lengths(numbers)
    counts = histogram(values, bin_width([values]))
    assert sum(bin_["count"] for bin_ in counts) == len(numbers)
    assert len(counts) <= BINS
    if len(counts) == BINS:
        assert counts[-1]["count"] <= max(1, len(numbers) // 50)
