"""*The Random Transformer*, retold by a walkthrough with the tutorial's own weights and the figures of its encoder
step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.inspection.walked import Walked
from models.inspection.walkthrough import walkthrough
from models.options import TokenRules
from models.transformer import Transformer
from models.transformer_config import TransformerConfig
from tests.models.test_attention import GOLDEN, SCALES, numbers


def tutorial(scale: float) -> Transformer:
    """Its two tokens are 0 and 1 here, and pass the embedding as the tutorial has them before the encoder."""
    config = TransformerConfig(
        source_vocabulary=3,
        target_vocabulary=3,
        pad=2,
        d_model=4,
        encoder_layers=1,
        decoder_layers=1,
        heads=2,
        head_width=3,
        d_ff=8,
        attention_bias=False,
        attention_scale=scale,
        norm_epsilon=1e-12,
        scale_embedding=False,
    )
    network = Transformer(config).double().eval()
    module = network.encoder_layers[0].attention
    heads = GOLDEN["head1"], GOLDEN["head2"]
    with torch.no_grad():
        module.projection.weight.copy_(torch.cat([numbers(h[n]).T for n in ("W_Q", "W_K", "W_V") for h in heads]))
        module.output.weight.copy_(numbers(GOLDEN["W_O"]).T)
        network.source_embedding.weight[:2] = numbers(GOLDEN["x"]) - network.positions(2)[:2]
    return network


def told(scale: float, head: int, position: int) -> dict[str, Walked]:
    found = walkthrough(
        tutorial(scale), [0, 1], [0], side="encoder", layer=0, head=head, position=position, rules=TokenRules(None)
    )
    return {step.name: step for step in found if step.part in ("embedding", "self-attention")}


def agree(step: Walked, published: Any) -> None:
    torch.testing.assert_close(numbers(step.values), numbers(published), rtol=0, atol=1e-6)


@pytest.mark.parametrize("position", [0, 1])
def test_queries_keys_values_and_scores(position: int) -> None:
    found, golden = told(1.0, 0, position), GOLDEN["head1"]
    agree(found["sum"], GOLDEN["x"][position])
    agree(found["query"], golden["Q"][position])
    agree(found["keys"], golden["K"])
    agree(found["values"], golden["V"])
    agree(found["scores"], golden["scores"][position])


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("head", [0, 1])
@pytest.mark.parametrize("name", SCALES)
def test_softmax_and_context(name: str, head: int, position: int) -> None:
    found, golden = told(SCALES[name], head, position), GOLDEN[f"head{head + 1}"]
    agree(found["softmax"], golden[f"weights_{name}"][position])
    agree(found["context"], golden[f"context_{name}"][position])


@pytest.mark.parametrize("position", [0, 1])
def test_output_projection_residual_and_norm(position: int) -> None:
    found = told(1 / 30, 0, position)
    joined = [*GOLDEN["head1"]["context_scaled_by_30"][position], *GOLDEN["head2"]["context_scaled_by_30"][position]]
    agree(found["heads concatenated"], joined)
    agree(found["output projection"], GOLDEN["multi_head_output_scaled_by_30"][position])
    residual = numbers(found["residual"].values)
    assert residual.mean().item() == pytest.approx(GOLDEN["residual_mean"][position], abs=1e-6)
    assert residual.std(correction=0).item() == pytest.approx(GOLDEN["residual_std"][position], abs=1e-6)
    agree(found["norm"], GOLDEN["layer_norm_output"][position])
