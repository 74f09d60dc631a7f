"""Attention maps of one sentence, and which layers and heads are meant."""

from __future__ import annotations

import pytest
import torch

from models.backends.select import prepared
from models.inspection.attention_maps import Attentive, attention_maps
from models.inspection.head_selection import resolve
from tests.models import tiny

SOURCE, TARGET = (3, 4, 5, 6), (1, 7, 8)


def test_only_networks_with_attention_are_attentive() -> None:
    assert isinstance(tiny.transformer(), Attentive)
    assert not isinstance(tiny.recurrent(), Attentive)


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


def test_an_empty_choice_is_an_error() -> None:
    with pytest.raises(ValueError, match="Choose at least one layer, or leave the choice out for all 2"):
        attention_maps(tiny.transformer(), SOURCE, TARGET, ["cross"], layers=[])


def test_maps_of_all_kinds() -> None:
    network = tiny.transformer(encoder_layers=3, decoder_layers=2)
    maps = attention_maps(network, SOURCE, TARGET, ("encoder", "decoder", "cross"))
    assert {kind: tuple(m.weights.shape) for kind, m in maps.items()} == {
        "encoder": (3, 4, 4, 4),
        "decoder": (2, 4, 3, 3),
        "cross": (2, 4, 3, 4),
    }
    assert (maps["encoder"].layers, maps["encoder"].heads) == ((0, 1, 2), (0, 1, 2, 3))
    for kind, found in maps.items():
        torch.testing.assert_close(found.weights.sum(dim=-1), torch.ones(found.weights.shape[:-1]), rtol=0, atol=1e-6)
        expected = network.attention(torch.tensor([SOURCE]), torch.tensor([TARGET]), [kind])[kind]
        torch.testing.assert_close(found.weights, torch.stack([m[0] for m in expected]), rtol=0, atol=1e-6)


def test_selected_layers_and_heads_are_those_of_the_whole() -> None:
    network = tiny.transformer(encoder_layers=3)
    whole = attention_maps(network, SOURCE, TARGET, ["encoder"])["encoder"].weights
    part = attention_maps(network, SOURCE, TARGET, ["encoder"], layers=[-1, 0], heads=[2, -4])["encoder"]
    assert (part.layers, part.heads) == ((2, 0), (2, 0))
    assert torch.equal(part.weights, whole[[2, 0]][:, [2, 0]])


def test_bad_requests() -> None:
    network = tiny.transformer(encoder_layers=3, decoder_layers=1)
    with pytest.raises(ValueError, match="no attention kind 'self'; the kinds are encoder, decoder, cross"):
        attention_maps(network, SOURCE, TARGET, ["encoder", "self"])
    with pytest.raises(ValueError, match="There is no layer 2"):
        attention_maps(network, SOURCE, TARGET, ["encoder", "cross"], layers=[2])
    with pytest.raises(ValueError, match="There is no head 4"):
        attention_maps(network, SOURCE, TARGET, ["cross"], heads=[4])


def test_an_empty_source_has_empty_maps() -> None:
    maps = attention_maps(tiny.transformer(), (), TARGET, ["encoder", "cross"])
    assert tuple(maps["encoder"].weights.shape) == (2, 4, 0, 0)
    assert tuple(maps["cross"].weights.shape) == (2, 4, 3, 0)


def test_maps_of_a_narrow_network_are_float32() -> None:
    maps = attention_maps(prepared(tiny.transformer(), "bf16"), SOURCE, TARGET, ["cross"])["cross"]
    assert maps.weights.dtype == torch.float32
    expected = attention_maps(tiny.transformer(), SOURCE, TARGET, ["cross"])["cross"]
    torch.testing.assert_close(maps.weights, expected.weights, rtol=0, atol=0.05)
