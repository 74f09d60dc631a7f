"""Head statistics of maps with known answers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from models.inspection.attention_maps import head_statistics
from models.inspection.forced_pass import forced_pass
from models.inspection.results import HeadStatistics
from tests.models import tiny

EVERYWHERE = torch.ones(4, 4, dtype=torch.bool)


def one(weights: Tensor, valid: Tensor = EVERYWHERE, *, cross: bool = False, **places: list[int]) -> HeadStatistics:
    (result,) = head_statistics(weights[None].float(), valid, cross=cross, **places)
    return result


def test_statistics_equal_manual_computation() -> None:
    weights = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 1.0, 0.0], [0.25] * 4])
    results = one(weights, starts=[0], ends=[3])
    entropies = [math.log(2), -sum(p * math.log(p) for p in (0.1, 0.2, 0.3, 0.4)), 0.0, math.log(4)]
    expected = HeadStatistics(
        entropy_mean=sum(entropies) / 4,
        entropy_norm=sum(entropies) / 4 / math.log(4),
        confidence=(0.5 + 0.4 + 1.0 + 0.25) / 4,
        mass_bos=(0.5 + 0.1 + 0.25) / 4,
        mass_eos=(0.4 + 0.25) / 4,
        prev=(0.1 + 0.0 + 0.25) / 3,
        diag=(0.5 + 0.2 + 1.0 + 0.25) / 4,
        next=(0.5 + 0.3 + 0.0) / 3,
        argmax_coverage=3 / 4,
        role="mixed",
    )
    assert results[:-1] == pytest.approx(expected[:-1], abs=1e-6)
    assert results.role == expected.role


def test_padding_is_ignored() -> None:
    """The same head over three tokens, without padding and with padding inside and behind."""
    generator = torch.Generator().manual_seed(0)
    inner = torch.rand(3, 3, generator=generator).softmax(dim=-1)
    where = torch.tensor([0, 1, 3])
    weights, valid = torch.zeros(5, 5), torch.zeros(5, 5, dtype=torch.bool)
    weights[where[:, None], where], valid[where[:, None], where] = inner, True
    plain = one(inner, torch.ones(3, 3, dtype=torch.bool), cross=True, ends=[2])
    assert one(weights, valid, cross=True, ends=[3])[:-1] == pytest.approx(plain[:-1], abs=1e-6)


@pytest.mark.parametrize(
    ("offset", "name", "role"), [(0, "diag", "diagonal"), (-1, "prev", "previous"), (1, "next", "next")]
)
def test_heads_attending_to_neighbours(offset: int, name: str, role: str) -> None:
    keys = (torch.arange(4) + offset).clamp(0, 3)
    result = one(torch.eye(4)[keys])
    assert getattr(result, name) == 1.0
    assert result.role == role
    assert (result.entropy_mean, result.confidence) == (0.0, 1.0)


@pytest.mark.parametrize(("key", "role"), [(3, "end of sentence"), (0, "start of sentence"), (2, "focused")])
def test_heads_attending_to_one_position(key: int, role: str) -> None:
    weights = torch.full((4, 4), 0.05)
    weights[:, key] = 0.85
    result = one(weights, starts=[0], ends=[3])
    assert result.role == role
    assert result.argmax_coverage == 0.25


def test_uniform_causal_head_is_broad() -> None:
    for count in (2, 4, 20):
        result = one(torch.full((count, count), 1 / count), torch.ones(count, count, dtype=torch.bool))
        assert (result.entropy_norm, result.role) == (pytest.approx(1.0), "broad")
    causal = EVERYWHERE.tril()
    result = one(causal / causal.sum(dim=-1, keepdim=True), causal)
    assert result.entropy_norm == pytest.approx(1.0), "the first row has one key, and nothing to spread over"
    assert result.entropy_mean == pytest.approx(sum(math.log(n) for n in (1, 2, 3, 4)) / 4)
    assert result.role == "broad", "although the first rows cannot but look at themselves"


def test_one_key_has_no_entropy() -> None:
    result = one(torch.ones(3, 1), torch.ones(3, 1, dtype=torch.bool), cross=True)
    assert (result.entropy_mean, result.entropy_norm, result.confidence, result.argmax_coverage) == (0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("rows", "keys", "places"),
    [(4, 4, [0, 1, 2, 3]), (2, 4, [1, 3]), (4, 2, [0, 0, 1, 1]), (3, 5, [0, 2, 4]), (1, 5, [2]), (5, 1, [0] * 5)],
)
def test_the_diagonal_of_two_lengths(rows: int, keys: int, places: list[int]) -> None:
    result = one(torch.eye(keys)[places], torch.ones(rows, keys, dtype=torch.bool), cross=True)
    assert (result.diag, result.role) == (1.0, "diagonal")


def test_heads_of_a_network() -> None:
    result = forced_pass(tiny.transformer(), [3, 4, 0, 5, 2], [1, 7, 8])
    for kind, maps in result.maps.items():
        for weights in maps:
            each = head_statistics(
                weights, result.valid(kind), cross=kind == "cross", starts=[0], ends=[4] * (kind != "decoder")
            )
            assert len(each) == 4
            for head, numbers in zip(weights, each, strict=True):
                rows = result.readable if kind == "encoder" else torch.ones(3, dtype=torch.bool)
                assert numbers.confidence == pytest.approx(head[rows].amax(dim=-1).mean().item(), abs=1e-6)
                assert numbers.mass_bos == pytest.approx(head[rows, 0].mean().item(), abs=1e-6)
                assert 0 < numbers.entropy_norm <= 1
            assert len({numbers.entropy_mean for numbers in each}) == 4


def test_fully_masked_row_has_no_statistics() -> None:
    result = one(torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.bool), cross=True)
    assert result == HeadStatistics(0, 0, 0, 0, 0, 0, 0, 0, 0, "mixed")
