"""Draws: the counter-based generator, the filters as they are defined, the distribution itself."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.sampling import Draw, sample, uniform

ALMOST_1 = 1 - 2.0**-53


def log(probabilities: list[float]) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def drawn(probabilities: list[float], number: float, *, t: float = 1.0, k: int = 0, p: float = 1.0) -> int:
    return int(sample(log(probabilities), [Draw(t, k, p, number)])[0])


def reachable(probabilities: list[float], *, t: float = 1.0, k: int = 0, p: float = 1.0) -> dict[int, float]:
    """Token -> its share of 4,000 evenly spaced uniform numbers."""
    count = 4000
    draws = [Draw(t, k, p, (i + 0.5) / count) for i in range(count)]
    tokens = sample(log(probabilities).expand(count, -1), draws).tolist()
    return {token: tokens.count(token) / count for token in sorted(set(tokens))}


def near(expected: dict[int, float]) -> object:
    return pytest.approx(expected, abs=5e-4)


# Uniform numbers ----------------------------------------------------------------------------------------


def test_pinned_numbers() -> None:
    """A seed must write the same text in every later version."""
    found = [uniform(0, 0), uniform(0, 1), uniform(1, 0), uniform(2**63, 7), uniform(-1, 3)]
    assert found == [0.3437718133056411, 0.6421614335153302, 0.9224715789340086, 0.54950462405014, 0.4393987475305826]


def test_uniform_by_positions_and_by_seeds() -> None:
    by_position = [uniform(12, i) for i in range(100_000)]
    by_seed = [uniform(i, 12) for i in range(100_000)]
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
    assert 0 <= uniform(seed, position) < 1


# Distribution -------------------------------------------------------------------------------------------


def test_the_cumulative_distribution_is_inverted_likeliest_first() -> None:
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
        assert drawn(probabilities, number) == token


def test_shares_are_the_probabilities() -> None:
    assert reachable([0.1, 0.4, 0.3, 0.2]) == near({0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2})


def test_temperature() -> None:
    sharp = [p**2 for p in (0.1, 0.4, 0.3, 0.2)]
    flat = [p**0.5 for p in (0.1, 0.4, 0.3, 0.2)]
    assert reachable([0.1, 0.4, 0.3, 0.2], t=0.5) == near({i: p / sum(sharp) for i, p in enumerate(sharp)})
    assert reachable([0.1, 0.4, 0.3, 0.2], t=2.0) == near({i: p / sum(flat) for i, p in enumerate(flat)})
    assert reachable([0.1, 0.4, 0.3, 0.2], t=1e5) == pytest.approx(dict.fromkeys(range(4), 0.25), abs=1e-3)


@pytest.mark.parametrize("t", [1e-3, 1e-30, 1e-300])
def test_next_to_no_temperature_is_the_likeliest(t: float) -> None:
    assert reachable([0.1, 0.4, 0.3, 0.2], t=t) == {1: 1.0}


def test_many_seeds_follow_the_distribution() -> None:
    torch.manual_seed(3)
    logits = torch.randn(1, 12) * 1.5
    count, t = 20_000, 0.8
    draws = [Draw(t, 0, 1.0, uniform(seed, 5)) for seed in range(count)]
    tokens = sample(logits.log_softmax(dim=-1).expand(count, -1), draws)
    expected = (logits[0].double() / t).softmax(dim=-1) * count
    observed = torch.bincount(tokens, minlength=12)
    assert expected.min() > 5
    chi_square = ((observed - expected).square() / expected).sum().item()
    assert chi_square < 35.6  # 11 degrees of freedom, p = 2e-4


# Filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "p", "expected"),
    [
        (1, 1.0, {1: 1}),
        (2, 1.0, {1: 4 / 7, 2: 3 / 7}),
        (3, 1.0, {1: 4 / 9, 2: 3 / 9, 3: 2 / 9}),
        (4, 1.0, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),
        (99, 1.0, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),  # more than the vocabulary
        (10**20, 1.0, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),
        (0, 0.39, {1: 1}),
        (0, 0.41, {1: 4 / 7, 2: 3 / 7}),  # the smallest set whose mass reaches p
        (0, 0.69, {1: 4 / 7, 2: 3 / 7}),
        (0, 0.71, {1: 4 / 9, 2: 3 / 9, 3: 2 / 9}),
        (0, 0.95, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),
        (0, 1e-12, {1: 1}),  # never nothing
        (2, 0.5, {1: 1}),  # p of what k leaves: 4/7 reaches it
        (2, 0.6, {1: 4 / 7, 2: 3 / 7}),
        (3, 0.75, {1: 4 / 7, 2: 3 / 7}),  # 7/9 reaches it
        (3, 0.8, {1: 4 / 9, 2: 3 / 9, 3: 2 / 9}),
    ],
)
def test_filters_keep_what_they_say(k: int, p: float, expected: dict[int, float]) -> None:
    assert reachable([0.1, 0.4, 0.3, 0.2], k=k, p=p) == near(expected)


def test_the_temperature_comes_before_the_filters() -> None:
    # at temperature 1/2 the shares are 1/30, 16/30, 9/30, 4/30
    assert reachable([0.1, 0.4, 0.3, 0.2], t=0.5, p=0.53) == {1: 1}
    assert reachable([0.1, 0.4, 0.3, 0.2], t=0.5, p=0.54) == near({1: 16 / 25, 2: 9 / 25})


def test_ties_fall_to_the_lower_ids() -> None:
    assert reachable([0.25] * 4, k=2) == near({0: 0.5, 1: 0.5})
    assert reachable([0.1, 0.3, 0.3, 0.3], k=1) == {1: 1}


# Edges --------------------------------------------------------------------------------------------------


def test_impossible_tokens_are_never_drawn() -> None:
    probabilities = [0.0, 0.5, 0.0, 0.5, 0.0]
    assert reachable(probabilities) == near({1: 0.5, 3: 0.5})
    for number in (0.0, ALMOST_1):
        for k in (0, 5):
            assert drawn(probabilities, number, k=k) in (1, 3)
    assert drawn([0.0, 0.0, 1.0], ALMOST_1) == 2


@given(
    st.lists(st.floats(-80, 0), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.3, 0.999999, ALMOST_1]),
    st.floats(0.01, 50),
    st.integers(0, 14),
    st.floats(1e-9, 1.0),
)
def test_every_draw_is_one_of_the_kept(logits: list[float], number: float, t: float, k: int, p: float) -> None:
    rows = torch.tensor([logits]).log_softmax(dim=-1)
    token = int(sample(rows, [Draw(t, k, p, number)])[0])
    weights = [math.exp((x - max(logits)) / t) for x in logits]
    order = sorted(range(len(logits)), key=lambda i: -rows[0, i].item())
    assert weights[token] > 0
    assert order.index(token) < (k or len(logits)) or rows[0, token] == rows[0, order[k - 1]]
    likelier = sum(w for w in weights if w > weights[token] * 1.001)
    kept = sum(weights[i] for i in order[: k or None])
    assert likelier < p * kept * 1.001


def test_batch_mates_do_not_matter() -> None:
    torch.manual_seed(4)
    rows = (torch.randn(40, 30) * 2).log_softmax(dim=-1)
    draws = [Draw(0.5 + i / 20, i % 7, 1.0 if i % 3 else 0.8, uniform(i, 2)) for i in range(40)]
    together = sample(rows, draws).tolist()
    assert together == [int(sample(rows[i : i + 1], [draws[i]])[0]) for i in range(40)]
    assert together == sample(rows.flip(0), draws[::-1]).flip(0).tolist()
    assert len(set(together)) > 5


def test_a_row_of_nan_spoils_no_other() -> None:
    rows = torch.cat([log([0.1, 0.9]), torch.full((1, 2), math.nan), torch.full((1, 2), -math.inf), log([0.9, 0.1])])
    tokens = sample(rows, [Draw(1.0, 0, 1.0, 0.5)] * 4).tolist()
    assert (tokens[0], tokens[3]) == (1, 0)
    assert all(0 <= token < 2 for token in tokens)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_formats(dtype: torch.dtype) -> None:
    assert int(sample(log([0.1, 0.6, 0.3]).to(dtype), [Draw(1.0, 0, 1.0, 0.7)])[0]) == 2
