"""Draws at their edges: impossible tokens, ties, cuts of many tokens, rows that must not matter to each other."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.sampling import CANDIDATES
from tests.models.draws import ALMOST_1, chosen_by_definition, drawn, log, near, number_of, reachable, sampled

pytestmark = pytest.mark.usefixtures("kernels")


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
