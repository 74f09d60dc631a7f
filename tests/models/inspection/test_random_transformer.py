"""*The Random Transformer*, retold by a walkthrough with the tutorial's own weights and the figures of its encoder
step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from examples import random_transformer
from models.decoding.options import TokenRules
from models.inspection.results import WalkthroughStep
from models.inspection.selection import WalkthroughFocus
from models.inspection.walkthrough import walkthrough
from tests.models.networks.test_attention import GOLDEN, SCALES, numbers


def steps_of(scale: float, head: int, position: int) -> dict[str, WalkthroughStep]:
    focus = WalkthroughFocus("encoder", 0, head, position)
    result = walkthrough(random_transformer.network(scale), [0, 1], [0], focus, TokenRules(None))
    return {step.name: step for step in result.steps if step.part in ("embedding", "self-attention")}


def agree(step: WalkthroughStep, published: Any) -> None:
    torch.testing.assert_close(numbers(step.values), numbers(published), rtol=0, atol=1e-6)


@pytest.mark.parametrize("position", [0, 1])
def test_queries_keys_values_and_scores(position: int) -> None:
    result, golden = steps_of(1.0, 0, position), GOLDEN["head1"]
    agree(result["sum"], GOLDEN["x"][position])
    agree(result["query"], golden["Q"][position])
    agree(result["keys"], golden["K"])
    agree(result["values"], golden["V"])
    agree(result["scores"], golden["scores"][position])


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("name", SCALES)
def test_softmax_and_context(name: str, head: int, position: int) -> None:
    result, golden = steps_of(SCALES[name], head, position), GOLDEN[f"head{head + 1}"]
    agree(result["softmax"], golden[f"weights_{name}"][position])
    agree(result["context"], golden[f"context_{name}"][position])


@pytest.mark.parametrize("position", [0, 1])
def test_output_projection_residual_and_norm(position: int) -> None:
    result = steps_of(1 / 30, 0, position)
    joined = [*GOLDEN["head1"]["context_scaled_by_30"][position], *GOLDEN["head2"]["context_scaled_by_30"][position]]
    agree(result["heads concatenated"], joined)
    agree(result["output projection"], GOLDEN["multi_head_output_scaled_by_30"][position])
    residual = numbers(result["residual"].values)
    assert residual.mean().item() == pytest.approx(GOLDEN["residual_mean"][position], abs=1e-6)
    assert residual.std(correction=0).item() == pytest.approx(GOLDEN["residual_std"][position], abs=1e-6)
    agree(result["norm"], GOLDEN["layer_norm_output"][position])
