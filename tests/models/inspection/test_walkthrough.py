"""A forward pass step by step: its numbers equal the network's own and an independent implementation's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from models.decoding.options import TokenRules
from models.inspection.forced_pass import forced_pass, forced_steps
from models.inspection.results import WalkthroughStep
from models.inspection.selection import SelectionError, WalkthroughFocus
from models.inspection.walkthrough import walkthrough
from tests.models import tiny
from tests.models.inspection.in_numpy import InNumpy

SOURCE, INPUTS = [3, 4, 5, 9, 6], [1, 7, 8, 4]
RULES = TokenRules(2, (0, 1))
PLACES = [("encoder", 0, 1, 2), ("encoder", -1, -1, 4), ("decoder", 0, 1, 0), ("decoder", -1, 0, 2)]


def steps_of(network: Any, side: Any, layer: int, head: int, position: int, **given: Any) -> list[WalkthroughStep]:
    chosen = {"rules": RULES, "most": 99, "most_keys": 99, **given}
    rules = chosen.pop("rules")
    return list(
        walkthrough(network, SOURCE, INPUTS, WalkthroughFocus(side, layer, head, position, **chosen), rules).steps
    )


def values(found: list[WalkthroughStep], part: str, name: str) -> list[Any]:
    (step,) = [step for step in found if (step.part, step.name) == (part, name)]
    return list(step.values)


def as_floats(values: Sequence[Any]) -> Any:
    """With minus infinity where a step has None."""
    return np.array([-np.inf if value is None else value for value in values])


@pytest.mark.every_value
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", tiny.OPTIONS)
def test_every_number_equals_a_float64_computation(name: str, place: tuple[str, int, int, int]) -> None:
    network = tiny.transformer(**tiny.OPTIONS[name])
    side, layer, head, position = place
    depth = network.config.encoder_layers if side == "encoder" else network.config.decoder_layers
    results = steps_of(network, *place, rules=TokenRules(2))
    expected = InNumpy(network).walk(SOURCE, INPUTS, side, layer % depth, head % network.config.heads, position)
    assert [step.name for step in results] == [name for name, _ in expected]
    for step, (_, numbers) in zip(results, expected, strict=True):
        if step.indices is not None:
            assert sorted(step.indices) == list(range(len(numbers))), "all of them were asked for"
            numbers = numbers[list(step.indices)]
            assert list(step.values) == sorted(step.values, reverse=True)
        assert step.shape == numbers.shape
        np.testing.assert_allclose(as_floats(step.values), numbers, rtol=0, atol=1e-5, err_msg=step.name)


@pytest.mark.parametrize("name", ["post", "pre", "marian", "unequal depths", "narrow heads"])
def test_numbers_equal_the_forced_pass(name: str) -> None:
    """To the last bit."""
    network = tiny.transformer(**tiny.OPTIONS[name])
    forced = forced_pass(network, SOURCE, INPUTS)
    for side, kinds in (
        ("encoder", {"self-attention": "encoder"}),
        ("decoder", {"self-attention": "decoder", "cross-attention": "cross"}),
    ):
        depth = len(forced.maps[side])
        for layer, head, position in [(0, 0, 1), (depth - 1, 1, 3)]:
            results = steps_of(network, side, layer, head, position)
            for part, kind in kinds.items():
                assert values(results, part, "softmax") == forced.maps[kind][layer][head, position].tolist()
    (logits,) = [step for step in results if step.name == "logits"]
    assert logits.indices is not None
    assert list(logits.values) == forced.logits[3, list(logits.indices)].tolist()


@pytest.mark.parametrize("rules", [RULES, TokenRules(2, (0, 1), renormalise=False)])
def test_probabilities_equal_the_steps(rules: TokenRules) -> None:
    network = tiny.transformer()
    logits = forced_pass(network, SOURCE, INPUTS).logits
    expected = forced_steps(logits, [7, 8, 4, 2], rules, top_k=5)[3].top
    (result,) = [s for s in steps_of(network, "decoder", -1, 0, 3, rules=rules, most=5) if s.name == "probabilities"]
    assert result.indices == tuple(candidate.id for candidate in expected)
    np.testing.assert_allclose(
        np.array(result.values), np.exp([candidate.logprob for candidate in expected]), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(("norm", "order"), [("post", ["residual", "norm"]), ("pre", ["norm", "residual"])])
def test_the_order_of_steps(norm: str, order: list[str]) -> None:
    attention = ["query", "keys", "values", "scores", "masked scores", "softmax", "context", "heads concatenated"]
    attention += ["output projection"]
    wrapped = {
        "post": [*attention, *order, *attention, *order, "widen", "activation", "narrow", *order],
        "pre": [
            "norm",
            *attention,
            "residual",
            "norm",
            *attention,
            "residual",
            "norm",
            "widen",
            "activation",
            "narrow",
            "residual",
        ],
    }[norm]
    embedding = ["token embedding", "scale", "position", "sum"]
    network = tiny.transformer(norm=norm)
    end = [*(["final norm"] if norm == "pre" else []), "logits", "probabilities"]
    assert [s.name for s in steps_of(network, "decoder", 1, 0, 0)] == [*embedding, "layer input", *wrapped, *end]
    assert [s.name for s in steps_of(network, "decoder", 0, 0, 0)] == [*embedding, *wrapped]
    parts = list(dict.fromkeys(s.part for s in steps_of(network, "decoder", 1, 0, 0)))
    assert parts == ["embedding", "layer input", "self-attention", "cross-attention", "feed-forward", "output"]


def test_masked_positions_have_no_weight() -> None:
    focus = WalkthroughFocus("decoder", 0, 0, 1, most_keys=99)
    result = list(walkthrough(tiny.transformer(), [3, 0, 5], INPUTS, focus, RULES).steps)
    for part, hidden in (("self-attention", {2, 3}), ("cross-attention", {1})):
        masked, weights = values(result, part, "masked scores"), values(result, part, "softmax")
        assert {k for k, score in enumerate(masked) if score is None} == hidden
        assert {k for k, weight in enumerate(weights) if weight == 0} == hidden
        assert all(np.isfinite(values(result, part, "scores")))
        assert sum(weights) == pytest.approx(1, abs=1e-6)


def test_sizes_are_bounded_and_the_full_size_is_reported() -> None:
    network = tiny.transformer()
    whole, cut = steps_of(network, "decoder", 1, 2, 3), steps_of(network, "decoder", 1, 2, 3, most=3, most_keys=2)
    for full, step in zip(whole, cut, strict=True):
        assert step.shape == full.shape
        by_key = step.name in ("keys", "values", "scores", "masked scores", "softmax")
        assert len(step.values) == min(2 if by_key else 3, full.shape[0])
        if len(step.shape) == 2:
            assert step.values == tuple(row[:3] for row in full.values[:2])  # type: ignore[index]
        elif step.indices is None:
            assert step.values == full.values[: len(step.values)]


def test_the_encoder_needs_no_decoder_input() -> None:
    network = tiny.transformer()
    focus = WalkthroughFocus("encoder")
    assert walkthrough(network, SOURCE, [], focus, RULES) == walkthrough(network, SOURCE, INPUTS, focus, RULES)


@pytest.mark.parametrize(
    ("place", "message", "field"),
    [
        (("encoder", 2, 0, 0), r"no encoder layer 2: this model has 2 \(encoder layers 0 to 1\)", "layer"),
        (("decoder", 0, -5, 0), r"no head -5: this model has 4 \(heads 0 to 3\)", "head"),
        (("decoder", 0, 0, 4), r"no position 4: the decoder's input has 4 \(positions 0 to 3\)", "position"),
        (("middle", 0, 0, 0), "no side 'middle'; the sides are encoder, decoder", "side"),
    ],
)
def test_missing_layers_and_heads_are_refused(place: tuple[str, int, int, int], message: str, field: str) -> None:
    with pytest.raises(SelectionError, match=message) as excinfo:
        steps_of(tiny.transformer(), *place)
    assert excinfo.value.field == field


def test_network_in_training_mode_is_refused() -> None:
    with pytest.raises(AssertionError, match="evaluation mode"):
        steps_of(tiny.transformer().train(), "encoder", 0, 0, 0)


def test_empty_source_has_no_positions() -> None:
    with pytest.raises(SelectionError, match="There is no position 0: the encoder's input has none"):
        walkthrough(tiny.transformer(), [], INPUTS, WalkthroughFocus("encoder"), RULES)
    assert torch.is_grad_enabled(), "a refused call leaves nothing switched off"
