"""Draws: the counter-based generator, the distribution itself, the filters as they are defined."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.backends.torch.token_choice import uniform
from tests.models.decoding.draws import ALMOST_1, Options, drawn, near, number_of, reachable, sampled

pytestmark = pytest.mark.usefixtures("kernels")


def test_pinned_numbers() -> None:
    """A seed must write the same text in every later version."""
    result = [number_of(0, 0), number_of(0, 1), number_of(1, 0), number_of(2**63, 7), number_of(-1, 3)]
    assert result == [0.3437718133056411, 0.6421614335153302, 0.9224715789340086, 0.54950462405014, 0.4393987475305826]


def test_uniform_by_positions_and_by_seeds() -> None:
    count = np.arange(100_000, dtype=np.uint64)
    by_position = uniform(np.full_like(count, 12), count).tolist()
    by_seed = uniform(count, np.full_like(count, 12)).tolist()
    assert by_position[345] == number_of(12, 345)
    assert by_seed[678] == number_of(678, 12)
    for numbers in (by_position, by_seed):
        assert min(numbers) >= 0
        assert max(numbers) < 1
        assert statistics.fmean(numbers) == pytest.approx(1 / 2, abs=0.004)  # 4 standard errors
        assert statistics.pvariance(numbers) == pytest.approx(1 / 12, abs=0.001)
        assert abs(statistics.correlation(numbers[:-1], numbers[1:])) < 0.0127
        buckets = [0] * 100
        for number in numbers:
            buckets[int(number * 100)] += 1
        assert sum((n - 1000) ** 2 / 1000 for n in buckets) < 161  # chi-square, 99 degrees, p = 1e-4
        assert len(set(numbers)) == len(numbers)
    assert abs(statistics.correlation(by_position, by_seed)) < 0.0127


@given(st.integers(), st.integers(min_value=0, max_value=1 << 40))
def test_uniform_takes_any_seed(seed: int, position: int) -> None:
    assert 0 <= number_of(seed, position) < 1


def test_filtered_distribution_is_inverted_likeliest_first() -> None:
    probabilities = [0.125, 0.5, 0.25, 0.125]  # 1, 2, then 0 before 3
    for number, token in [
        (0.0, 1),
        (0.49999, 1),
        (0.5, 2),
        (0.74999, 2),
        (0.75, 0),
        (0.87499, 0),
        (0.875, 3),
        (ALMOST_1, 3),
    ]:
        assert drawn(probabilities, number, top_k=4) == token
        assert drawn(probabilities, number, top_p=ALMOST_1) == token


def test_full_distribution_is_inverted_in_token_order() -> None:
    probabilities = [0.125, 0.5, 0.25, 0.125]
    for number, token in [
        (0.0, 0),
        (0.12499, 0),
        (0.12501, 1),
        (0.62499, 1),
        (0.62501, 2),
        (0.87499, 2),
        (0.87501, 3),
        (ALMOST_1, 3),
    ]:
        assert drawn(probabilities, number) == token


def test_sampled_frequencies_equal_the_probabilities() -> None:
    assert reachable([0.1, 0.4, 0.3, 0.2]) == near({0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2})


def test_temperature() -> None:
    sharp = [p**2 for p in (0.1, 0.4, 0.3, 0.2)]
    flat = [p**0.5 for p in (0.1, 0.4, 0.3, 0.2)]
    assert reachable([0.1, 0.4, 0.3, 0.2], temperature=0.5) == near({i: p / sum(sharp) for i, p in enumerate(sharp)})
    assert reachable([0.1, 0.4, 0.3, 0.2], temperature=2.0) == near({i: p / sum(flat) for i, p in enumerate(flat)})
    assert reachable([0.1, 0.4, 0.3, 0.2], temperature=1e5) == pytest.approx(dict.fromkeys(range(4), 0.25), abs=1e-3)


@pytest.mark.parametrize("t", [1e-3, 1e-30, 1e-300])
def test_temperature_near_0_is_greedy(t: float) -> None:
    assert reachable([0.1, 0.4, 0.3, 0.2], temperature=t) == {1: 1.0}


def test_many_seeds_follow_the_distribution() -> None:
    torch.manual_seed(3)
    logits = torch.randn(1, 12) * 1.5
    count, t = 20_000, 0.8
    draws = [({"temperature": t}, number_of(seed, 5)) for seed in range(count)]
    tokens = torch.tensor(sampled(logits.log_softmax(dim=-1).expand(count, -1), draws))
    expected = (logits[0].double() / t).softmax(dim=-1) * count
    observed = torch.bincount(tokens, minlength=12)
    assert expected.min() > 5
    chi_square = ((observed - expected).square() / expected).sum().item()
    assert chi_square < 35.6  # 11 degrees of freedom, p = 2e-4


@pytest.mark.every_value
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"top_k": 1}, {1: 1}),
        ({"top_k": 2}, {1: 4 / 7, 2: 3 / 7}),
        ({"top_k": 3}, {1: 4 / 9, 2: 3 / 9, 3: 2 / 9}),
        ({"top_k": 4}, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),
        ({"top_k": 99}, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),  # more than the vocabulary
        ({"top_k": 2**63 - 1}, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),
        ({"top_p": 0.39}, {1: 1}),
        ({"top_p": 0.41}, {1: 4 / 7, 2: 3 / 7}),  # the smallest set with a mass of at least p
        ({"top_p": 0.69}, {1: 4 / 7, 2: 3 / 7}),
        ({"top_p": 0.71}, {1: 4 / 9, 2: 3 / 9, 3: 2 / 9}),
        ({"top_p": 0.95}, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),
        ({"top_p": 1e-12}, {1: 1}),  # never nothing
        ({"top_k": 2, "top_p": 0.5}, {1: 1}),  # p of what k leaves: 4/7 reaches it
        ({"top_k": 2, "top_p": 0.6}, {1: 4 / 7, 2: 3 / 7}),
        ({"top_k": 3, "top_p": 0.75}, {1: 4 / 7, 2: 3 / 7}),  # 7/9 reaches it
        ({"top_k": 3, "top_p": 0.8}, {1: 4 / 9, 2: 3 / 9, 3: 2 / 9}),
        ({"min_p": 0.2}, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),
        ({"min_p": 0.26}, {1: 4 / 9, 2: 3 / 9, 3: 2 / 9}),  # of 0.4, the probability of the likeliest
        ({"min_p": 1.0}, {1: 1}),
        ({"top_k": 3, "min_p": 0.6}, {1: 4 / 7, 2: 3 / 7}),
        ({"min_p": 0.6, "top_p": 0.5}, {1: 1}),  # p of what min_p leaves: 4/7 reaches it
    ],
)
def test_filters_keep_the_documented_tokens(options: Options, expected: dict[int, float]) -> None:
    assert reachable([0.1, 0.4, 0.3, 0.2], **options) == near(expected)


def test_the_temperature_comes_before_the_filters() -> None:
    # at temperature 1/2 the shares are 1/30, 16/30, 9/30, 4/30
    assert reachable([0.1, 0.4, 0.3, 0.2], temperature=0.5, top_p=0.53) == {1: 1}
    assert reachable([0.1, 0.4, 0.3, 0.2], temperature=0.5, top_p=0.54) == near({1: 16 / 25, 2: 9 / 25})


def test_ties_fall_to_the_lower_ids() -> None:
    assert reachable([0.25] * 4, top_k=2) == near({0: 0.5, 1: 0.5})
    assert reachable([0.1, 0.3, 0.3, 0.3], top_k=1) == {1: 1}
