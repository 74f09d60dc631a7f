"""Attention maps of one sentence, and which layers and heads are meant."""

from __future__ import annotations

import pytest
import torch

from models.inspection.attention_maps import reduced_map
from models.inspection.forced_pass import forced_pass
from models.inspection.selection import AttentionSelection, resolve
from tests.models import tiny

SOURCE, TARGET = (3, 4, 5, 6), (1, 7, 8)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [(None, (0, 1, 2, 3)), ([2], (2,)), ([-1, 0], (3, 0)), ([3, -1, 3, 1], (3, 1)), ([-4], (0,))],
)
def test_choices_may_count_from_the_end(chosen: list[int] | None, expected: tuple[int, ...]) -> None:
    assert resolve(chosen, 4, "head") == expected


@pytest.mark.parametrize("number", [4, -5, 100])
def test_error_names_the_valid_range(number: int) -> None:
    with pytest.raises(ValueError, match=rf"There is no head {number}: this model has 4 \(heads 0 to 3\)\."):
        resolve([0, number], 4, "head")


def test_maps_of_all_kinds() -> None:
    network = tiny.transformer(encoder_layers=3, decoder_layers=2)
    maps = forced_pass(network, SOURCE, TARGET).maps
    expected = tiny.attention(network, torch.tensor([SOURCE]), torch.tensor([TARGET]))
    shapes = {"encoder": (3, 4, 4, 4), "decoder": (2, 4, 3, 3), "cross": (2, 4, 3, 4)}
    assert {kind: reduced_map(found, AttentionSelection()).shape for kind, found in maps.items()} == shapes
    for kind, results in maps.items():
        whole = reduced_map(results, AttentionSelection())
        assert (whole.layers, whole.heads) == (tuple(range(len(results))), (0, 1, 2, 3))
        weights = torch.tensor(whole.values)
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]), rtol=0, atol=1e-6)
        torch.testing.assert_close(weights, torch.stack([m[0] for m in expected[kind]]), rtol=0, atol=1e-6)


def test_selected_layers_and_heads_equal_the_full_maps() -> None:
    maps = forced_pass(tiny.transformer(encoder_layers=3), SOURCE, TARGET, ["encoder"]).maps["encoder"]
    part = reduced_map(maps, AttentionSelection(layers=(-1, 0), heads=(2, -4)))
    assert (part.layers, part.heads) == ((2, 0), (2, 0))
    assert torch.equal(torch.tensor(part.values), torch.stack(maps)[[2, 0]][:, [2, 0]])


def test_bad_requests() -> None:
    network = tiny.transformer(encoder_layers=3, decoder_layers=1)
    with pytest.raises(ValueError, match="no attention kind 'self'; the kinds are encoder, decoder, cross"):
        forced_pass(network, SOURCE, TARGET, ["encoder", "self"])
    cross = forced_pass(network, SOURCE, TARGET).maps["cross"]
    for selection, problem in (
        (AttentionSelection(layers=()), "Choose at least one layer, or leave the choice out for all 1"),
        (AttentionSelection(layers=(2,)), "There is no layer 2"),
        (AttentionSelection(heads=(4,)), "There is no head 4"),
    ):
        with pytest.raises(ValueError, match=problem):
            reduced_map(cross, selection)


def test_an_empty_source_has_empty_maps() -> None:
    maps = forced_pass(tiny.transformer(), (), TARGET).maps
    assert reduced_map(maps["encoder"], AttentionSelection()).shape == (2, 4, 0, 0)
    assert reduced_map(maps["cross"], AttentionSelection()).shape == (2, 4, 3, 0)
