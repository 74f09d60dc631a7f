"""Attention: the two paths are one function, and the published worked example comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from models.networks.transformer import Capture, MultiHeadAttention, Residual, Scope, TransformerConfig

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "golden" / "random_transformer.json").read_text(encoding="utf-8")
)
SCALES = {"scaled_by_30": 1 / 30, "scaled_by_sqrt3": 3**-0.5}


def made(**options: Any) -> MultiHeadAttention:
    torch.manual_seed(7)
    given = {f"attention_{name}": value for name, value in options.items()}
    config = TransformerConfig(source_vocabulary=2, target_vocabulary=2, d_model=12, heads=3, head_width=4, **given)
    return MultiHeadAttention(config).eval()


def scope(mask: Tensor | None = None, capture: Capture | None = None) -> Scope:
    return Scope(torch.arange(0), mask, capture=capture)


def a_mask(shape: tuple[int, ...], seed: int) -> Tensor:
    """Random, but with at least one visible key per query."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0] |= ~mask.any(dim=-1)
    return mask


@pytest.mark.every_value
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", [(4, 3, 5, 7), (4, 1, 5, 7), (4, 1, 1, 7), (5, 7)])
@torch.inference_mode()
def test_fused_equals_explicit(shape: tuple[int, ...], seed: int) -> None:
    module, generator = made(), torch.Generator().manual_seed(seed)
    query, _, _ = module.query_key_value(torch.randn(4, 5, 12, generator=generator), scope())
    key, value = module.key_value(torch.randn(4, 7, 12, generator=generator))
    mask, capture = a_mask(shape, seed), Capture()
    fused = module.attend(query, key, value, scope(mask))
    explicit = module.attend(query, key, value, scope(mask, capture))
    torch.testing.assert_close(fused, explicit, rtol=0, atol=4e-6)
    weights = capture.weights[0]
    assert weights.shape == (4, 3, 5, 7)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(4, 3, 5), rtol=0, atol=1e-6)
    assert torch.equal(weights[~mask.expand_as(weights)], torch.zeros(int((~mask.expand_as(weights)).sum())))
    assert (weights >= 0).all()


@torch.inference_mode()
def test_without_a_mask_every_key_is_attended() -> None:
    module = made()
    query, key, value = module.query_key_value(torch.randn(2, 6, 12), scope())
    capture = Capture()
    explicit = module.attend(query, key, value, scope(capture=capture))
    torch.testing.assert_close(module.attend(query, key, value, scope()), explicit, rtol=0, atol=4e-6)
    everywhere = torch.ones(6, 6, dtype=torch.bool)
    torch.testing.assert_close(module.attend(query, key, value, scope(everywhere)), explicit, rtol=0, atol=4e-6)
    assert (capture.weights[0] > 0).all()


@torch.inference_mode()
def test_fully_masked_row_is_zero_on_both_paths() -> None:
    module = made()
    query, key, value = module.query_key_value(torch.randn(2, 3, 12), scope())
    mask, capture = torch.tensor([[True, True, True], [False, False, False]])[:, None, None, :], Capture()
    fused = module.attend(query, key, value, scope(mask))
    explicit = module.attend(query, key, value, scope(mask, capture))
    torch.testing.assert_close(fused, explicit, rtol=0, atol=4e-6)
    assert torch.equal(explicit[1], module.output.bias.expand(3, 12)), "no context at all: the bias alone"
    assert torch.equal(capture.weights[0][1], torch.zeros(3, 3, 3))


@torch.inference_mode()
def test_blocks_of_the_one_matrix() -> None:
    """Self-attention takes its query, key and value from the same rows as cross-attention."""
    for bias in (True, False):
        module = made(bias=bias)
        x = torch.randn(2, 5, 12)
        query, key, value = module.query_key_value(x, scope())
        assert query.shape == (2, 3, 5, 4)
        torch.testing.assert_close(module.split(module.projection(x, slice(12))), query, rtol=0, atol=1e-6)
        for cross, own in zip(module.key_value(x), (key, value), strict=True):
            torch.testing.assert_close(cross, own, rtol=0, atol=1e-6)
        by_hand = x @ module.projection.weight[4:8].T  # the second head's queries
        if bias:
            by_hand = by_hand + module.projection.bias[4:8]
        torch.testing.assert_close(query[:, 1], by_hand, rtol=0, atol=1e-6)


@torch.inference_mode()
def test_weights_of_a_narrow_network_still_sum_to_1() -> None:
    module, capture = made().bfloat16(), Capture()
    query, key, value = module.query_key_value(torch.randn(2, 50, 12).bfloat16() * 3, scope())
    explicit = module.attend(query, key, value, scope(capture=capture))
    assert explicit.dtype == torch.bfloat16
    torch.testing.assert_close(capture.weights[0].sum(dim=-1), torch.ones(2, 3, 50), rtol=0, atol=1e-6)
    torch.testing.assert_close(module.attend(query, key, value, scope()), explicit, rtol=0, atol=0.06)


def test_scale() -> None:
    assert made().scale == 0.5  # 1/sqrt(4)
    assert made(scale=0.03).scale == 0.03


def test_dropout_is_active_in_training_only() -> None:
    module = made(dropout=0.9)
    query, key, value = module.query_key_value(torch.randn(2, 6, 12), scope())
    assert torch.equal(module.attend(query, key, value, scope()), module.attend(query, key, value, scope()))
    module.train()
    torch.manual_seed(0)
    assert not torch.equal(module.attend(query, key, value, scope()), module.attend(query, key, value, scope()))


def test_attention_keeps_no_state_on_the_module() -> None:
    module = made()
    before = set(vars(module)), set(dict(module.named_buffers()))
    query, key, value = module.query_key_value(torch.randn(1, 3, 12), scope())
    module.attend(query, key, value, scope(capture=Capture()))
    assert (set(vars(module)), set(dict(module.named_buffers()))) == before


def test_gradients_of_both_paths_agree() -> None:
    module, mask = made(), a_mask((2, 1, 1, 5), 3)
    gradients = []
    for capture in (None, Capture()):
        module.zero_grad()
        torch.manual_seed(1)
        query, key, value = module.query_key_value(torch.randn(2, 5, 12), scope())
        module.attend(query, key, value, scope(mask, capture)).square().sum().backward()
        assert module.projection.weight.grad is not None
        gradients.append(module.projection.weight.grad.clone())
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-4)


# The Random Transformer ---------------------------------------------------------------------------------


def random_transformer(scale: float) -> tuple[MultiHeadAttention, Residual]:
    """Its attention and the norm around it, with its weights, in float64."""
    config = TransformerConfig(
        source_vocabulary=2,
        target_vocabulary=2,
        d_model=4,
        heads=2,
        head_width=3,
        attention_bias=False,
        attention_scale=scale,
        norm_epsilon=1e-12,
        residual_dropout=0.0,
    )
    module, around = MultiHeadAttention(config).double().eval(), Residual(config).double().eval()
    heads = GOLDEN["head1"], GOLDEN["head2"]
    columns = [torch.tensor(head[name]).T for name in ("W_Q", "W_K", "W_V") for head in heads]
    with torch.no_grad():
        module.projection.weight.copy_(torch.cat(columns))
        module.output.weight.copy_(numbers(GOLDEN["W_O"]).T)
    return module, around


def numbers(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def agree(ours: Tensor, published: Any) -> None:
    torch.testing.assert_close(ours.detach(), numbers(published), rtol=0, atol=1e-6)


def test_random_transformer_queries_keys_values_and_scores() -> None:
    module, _ = random_transformer(1.0)
    query, key, value = module.query_key_value(numbers([GOLDEN["x"]]), scope())
    for name, ours in (("Q", query), ("K", key), ("V", value)):
        agree(ours[0, 0], GOLDEN["head1"][name])
    agree((query @ key.transpose(-1, -2))[0, 0], GOLDEN["head1"]["scores"])


@pytest.mark.parametrize("name", SCALES)
def test_random_transformer_heads(name: str) -> None:
    module, _ = random_transformer(SCALES[name])
    attended = module.attend_explicit(*module.query_key_value(numbers([GOLDEN["x"]]), scope()), None)
    for i, head in enumerate((GOLDEN["head1"], GOLDEN["head2"])):
        agree(attended.weights[0, i], head[f"weights_{name}"])
        agree(attended.context[0, i], head[f"context_{name}"])


def test_random_transformer_sublayer() -> None:
    module, around = random_transformer(1 / 30)
    x = numbers([GOLDEN["x"]])
    joined: list[Tensor] = []
    hook = module.output.register_forward_pre_hook(lambda _, given: joined.append(given[0]))
    for capture in (Capture(), None):  # the explicit path and the fused one
        output = module.attend(*module.query_key_value(x, scope()), scope(capture=capture))
        agree(output[0], GOLDEN["multi_head_output_scaled_by_30"])
        heads = [GOLDEN[head]["context_scaled_by_30"] for head in ("head1", "head2")]
        agree(joined.pop()[0], [[*first, *second] for first, second in zip(*heads, strict=True)])
    hook.remove()
    residual = (x + output)[0]
    agree(residual.mean(dim=-1), GOLDEN["residual_mean"])
    agree(residual.std(dim=-1, correction=0), GOLDEN["residual_std"])
    normed = around(x, lambda y: module.attend(*module.query_key_value(y, scope()), scope()))
    agree(normed[0], GOLDEN["layer_norm_output"])
    agree(normed[0].mean(dim=-1), [0.0, 0.0])


def test_no_figure_is_left_out() -> None:
    """Figures that are added to the file must be tested too."""
    head1 = {"W_Q", "W_K", "W_V", "Q", "K", "V", "scores"}
    scaled = {f"{kind}_{name}" for kind in ("weights", "context") for name in SCALES}
    assert set(GOLDEN["head1"]) == head1 | scaled
    assert set(GOLDEN["head2"]) == {"W_Q", "W_K", "W_V"} | scaled
    assert set(GOLDEN) == {
        *("about", "x", "head1", "head2", "W_O", "multi_head_output_scaled_by_30"),
        *("residual_mean", "residual_std", "layer_norm_output"),
    }
