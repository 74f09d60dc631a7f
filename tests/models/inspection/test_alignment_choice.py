"""The layer, heads and convention with the least error."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.inspection.word_alignment import (
    CONVENTIONS,
    AlignmentExample,
    GoldLinks,
    choose_alignment,
)

WORDS = 5
LINKS = frozenset((WORDS - 1 - j, j) for j in range(WORDS))
UNITS = [*range(WORDS), None]
RIGHT = torch.eye(WORDS + 1)[[*range(WORDS - 1, -1, -1), WORDS]]
SHIFTED = RIGHT[[WORDS, *range(WORDS)]]


def noise(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).softmax(dim=-1)


def examples(make: dict[tuple[int, int], Tensor], spread: float = 0.0) -> list[AlignmentExample]:
    """Two layers of three heads of noise, except for the given heads [T, S]."""
    results = []
    for seed in range(4):
        maps = [noise(10 * seed + layer, 3, WORDS + 1, WORDS + 1) for layer in range(2)]
        for (layer, head), weights in make.items():
            maps[layer][head] = weights * (1 - spread) + noise(100 + 7 * seed + head, WORDS + 1, WORDS + 1) * spread
        results.append(AlignmentExample(maps, UNITS, UNITS, GoldLinks(LINKS, LINKS)))
    return results


def test_one_good_head_is_chosen() -> None:
    candidates = choose_alignment(examples({(1, 2): RIGHT}))
    best = candidates[0]
    assert (best.heads, best.convention, best.error) == (((1, 2),), "predicting", 0.0)
    alone = [c for c in candidates if len(c.heads) == 1]
    assert len(alone) == 2 * 2 * 3
    means = [tuple((layer, head) for head in range(3)) for layer in (0, 1)]
    assert {(c.heads, c.convention) for c in candidates} >= {(m, c) for m in means for c in CONVENTIONS}
    assert [c.error for c in candidates] == sorted(c.error for c in candidates)
    assert len({(c.heads, c.convention) for c in candidates}) == len(candidates)


def test_head_one_step_late_is_chosen_shifted() -> None:
    best = choose_alignment(examples({(0, 1): SHIFTED}))[0]
    assert (best.heads, best.convention, best.error) == (((0, 1),), "input", 0.0)


def test_simpler_candidate_wins_a_tie() -> None:
    candidates = choose_alignment(examples({(0, 2): RIGHT, (1, 0): RIGHT, (1, 1): RIGHT}))
    assert candidates[0].heads == ((0, 2),)
    zero = [c.heads for c in candidates if c.error == 0]
    assert zero[:3] == [((0, 2),), ((1, 0),), ((1, 1),)]


def test_complementary_heads_are_averaged() -> None:
    first, second = RIGHT.clone(), RIGHT.clone()
    first[:2], second[2:4] = (
        torch.eye(WORDS + 1)[0] * 0.6 + RIGHT[:2] * 0.4,
        torch.eye(WORDS + 1)[1] * 0.6 + RIGHT[2:4] * 0.4,
    )
    best = choose_alignment(examples({(0, 0): first, (1, 2): second}))[0]  # of two layers
    assert (best.heads, best.error) == (((0, 0), (1, 2)), 0.0)


def test_error_rate_of_each_candidate() -> None:
    given = examples({(0, 0): RIGHT, (1, 1): SHIFTED}, spread=0.9)
    candidates = choose_alignment(given)
    for c in candidates:
        assert c.error_on(given) == c.error
    assert len({c.error for c in candidates}) > 5


def test_choice_without_sentences_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sentence"):
        choose_alignment([])
