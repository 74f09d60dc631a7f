"""Draws: the counter-based generator, the filters as they are defined, the distribution itself."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.rows import SEED_BITS
from models.sampling import CANDIDATES, Draws, sample, uniform

pytestmark = pytest.mark.usefixtures("kernels")
ALMOST_1 = 1 - 2.0**-53
Draw = tuple[float, int, float, float]  # temperature, top_k, top_p, uniform number


def sampled(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    t, k, p, number = (np.array(column) for column in zip(*draws, strict=True))
    return sample(logits, Draws(t.astype(float), k.astype(np.int64), p.astype(float), number.astype(float))).tolist()


def number_of(seed: int, position: int) -> float:
    """One uniform number; of a seed of any size the last 64 bits count."""
    return float(uniform(np.array([seed & SEED_BITS], np.uint64), np.array([position], np.uint64))[0])


def log(probabilities: list[float]) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def drawn(probabilities: list[float], number: float, *, t: float = 1.0, k: int = 0, p: float = 1.0) -> int:
    return sampled(log(probabilities), [(t, k, p, number)])[0]


def reachable(probabilities: list[float], *, t: float = 1.0, k: int = 0, p: float = 1.0) -> dict[int, float]:
    """Token -> its share of 4,000 evenly spaced uniform numbers."""
    count = 4000
    draws = [(t, k, p, (i + 0.5) / count) for i in range(count)]
    tokens = sampled(log(probabilities).expand(count, -1), draws)
    return {token: tokens.count(token) / count for token in sorted(set(tokens))}


def near(expected: dict[int, float]) -> object:
    return pytest.approx(expected, abs=5e-4)


# Uniform numbers ----------------------------------------------------------------------------------------


def test_pinned_numbers() -> None:
    """A seed must write the same text in every later version."""
    found = [number_of(0, 0), number_of(0, 1), number_of(1, 0), number_of(2**63, 7), number_of(-1, 3)]
    assert found == [0.3437718133056411, 0.6421614335153302, 0.9224715789340086, 0.54950462405014, 0.4393987475305826]


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


# Distribution -------------------------------------------------------------------------------------------


def test_a_cut_distribution_is_inverted_likeliest_first() -> None:
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
        assert drawn(probabilities, number, k=4) == token
        assert drawn(probabilities, number, p=ALMOST_1) == token


def test_a_whole_distribution_is_inverted_in_the_order_of_its_tokens() -> None:
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
    draws = [(t, 0, 1.0, number_of(seed, 5)) for seed in range(count)]
    tokens = torch.tensor(sampled(logits.log_softmax(dim=-1).expand(count, -1), draws))
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
        (2**63 - 1, 1.0, {0: 0.1, 1: 0.4, 2: 0.3, 3: 0.2}),
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
    token = sampled(rows, [(t, k, p, number)])[0]
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
    draws = [(0.5 + i / 20, i % 7, 1.0 if i % 3 else 0.8, number_of(i, 2)) for i in range(40)]
    together = sampled(rows, draws)
    assert together == [sampled(rows[i : i + 1], [draws[i]])[0] for i in range(40)]
    assert together == sampled(rows.flip(0), draws[::-1])[::-1]
    assert len(set(together)) > 5


def chosen_by_definition(logits: Tensor, t: float, k: int, p: float) -> list[int]:
    """The tokens that the cuts leave, in the order in which they are counted, for one row [V]."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token].item())
    if k == 0 and p == 1:
        return list(range(len(logits)))
    order = order[: k or None]
    weights = ((logits[order] - logits.max()).double() / t).exp()
    before = weights.cumsum(0) - weights
    return [token for token, mass in zip(order, before.tolist(), strict=True) if mass < p * weights.sum().item()]


def edges(logits: Tensor, t: float, k: int, p: float, count: int) -> list[float]:
    """Uniform numbers on which the draw turns from one token to the next: any difference in rounding shows there."""
    kept = chosen_by_definition(logits, t, k, p)
    weights = ((logits[kept] - logits.max()).double() / t).exp()
    places = (weights.cumsum(0) / weights.sum()).tolist()
    steps = len(places) // count + 1
    return [min(place, ALMOST_1) for place in places[::steps]]


@pytest.mark.parametrize("size", [50, 640, 1000])
def test_batch_mates_do_not_matter_even_where_rounding_decides(size: int) -> None:
    """Next to: an uncut row, one so cold that float32 cannot hold it, one whose cut needs all tokens in order, one that
    asks for more candidates, one of ties."""
    torch.manual_seed(size)
    mates = torch.randn(5, size) * 3
    mates[2] = 0.01 * torch.randn(size)
    mates[4] = mates[4].round()
    company = [(1.0, 0, 1.0, 0.4), (1e-300, 0, 1.0, 0.4), (1.0, 0, 0.99, 0.4), (1.0, 300, 1.0, 0.4), (1.0, 3, 1.0, 0.4)]
    for t, k, p in [(0.7, 0, 1.0), (1.3, 0, 0.9), (0.9, 20, 1.0), (1.1, 40, 0.8), (5.0, 0, 0.97)]:
        row = torch.randn(size) * 2
        draws = [(t, k, p, number) for number in edges(row, t, k, p, 20)]
        alone = [sampled(row[None], [draw])[0] for draw in draws]
        assert len(set(alone)) > 3
        for mate, friend in zip(mates, company, strict=True):
            both = [sampled(torch.stack([mate, row]), [friend, draw])[1] for draw in draws]
            assert both == alone, friend
            many = sampled(torch.stack([*[row] * len(draws), mate]), [*draws, friend])
            assert many[:-1] == alone, friend


def test_ties_at_the_end_of_the_candidates() -> None:
    """The last candidate ties with tokens that are not candidates, and alone completes the mass: the lowest id."""
    size = CANDIDATES + 344
    logits = torch.full((size,), -2.0)
    places = torch.randperm(size, generator=torch.Generator().manual_seed(5))
    logits[places[:CANDIDATES]] = torch.linspace(1, -1, CANDIDATES)
    order = sorted(range(size), key=lambda token: (-logits[token].item(), token))
    weights = logits[order].double().exp()
    share = (weights[: CANDIDATES + 1].sum() - weights[CANDIDATES] / 2).item() / weights.sum().item()
    assert chosen_by_definition(logits, 1.0, 0, share) == order[: CANDIDATES + 1]
    draw = (1.0, 0, share, ALMOST_1)
    assert sampled(logits[None], [draw]) == [order[CANDIDATES]]
    assert sampled(logits.expand(2, -1), [draw, (1.0, 300, 1.0, 0.1)])[0] == order[CANDIDATES]


@pytest.mark.parametrize("size", [7, 256, 257, 258, 320, 900, 1536])
@pytest.mark.parametrize("tied", [False, True])
def test_cuts_of_many_tokens_are_the_definitions(size: int, tied: bool) -> None:
    chance = random.Random(size)
    torch.manual_seed(size)
    for _ in range(12):
        logits = torch.randn(4, size) * chance.choice([0.05, 1.0, 3.0])
        logits = logits.mul(2).round() / 2 if tied else logits
        logits[:, chance.randrange(size)] = -math.inf
        cuts = [(chance.uniform(0.3, 2), chance.choice([0, 1, 7, 300]), chance.uniform(0.1, 0.999)) for _ in range(4)]
        numbers = [chance.random() for _ in range(4)]
        found = sampled(logits, [(*cut, number) for cut, number in zip(cuts, numbers, strict=True)])
        for row, cut, number, token in zip(logits, cuts, numbers, found, strict=True):
            kept = chosen_by_definition(row, *cut)
            weights = ((row[kept] - row.max()).double() / cut[0]).exp()
            place = kept.index(token)
            passed = weights.cumsum(0) / weights.sum()
            assert (passed[place - 1] if place else 0) - 1e-6 <= number <= passed[place] + 1e-6


def test_a_row_of_nan_spoils_no_other() -> None:
    rows = torch.cat([log([0.1, 0.9]), torch.full((1, 2), math.nan), torch.full((1, 2), -math.inf), log([0.9, 0.1])])
    tokens = sampled(rows, [(1.0, 0, 1.0, 0.5)] * 4)
    assert (tokens[0], tokens[3]) == (1, 0)
    assert all(0 <= token < 2 for token in tokens)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_formats(dtype: torch.dtype) -> None:
    assert sampled(log([0.1, 0.6, 0.3]).to(dtype), [(1.0, 0, 1.0, 0.75)]) == [2]
