"""Dropout in the kernels of training: its rate, its draws, and that the way back drops what the way there dropped."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from models.backends.native.build import TRAINING
from models.networks.transformer import Transformer
from tests.training.kernels.test_packed_transformer import VOCABULARY, batch, kernels, learnt, network, variant
from training.kernels.autograd import Embed
from training.kernels.packing import Dropout, Side
from training.kernels.training_backend import TranslatorBackend

SITES: tuple[dict[str, Any], ...] = (
    {"embedding_dropout": 0.3},
    {"residual_dropout": 0.3},
    {"residual_dropout": 0.3, "norm": "post"},
    {"attention_dropout": 0.3},
    {"activation_dropout": 0.3},
)


def dropped(rate: float, key: int, tokens: int = 2000, width: int = 40) -> Tensor:
    """The dropout mask, read from embeddings of ones."""
    ids = torch.zeros(tokens, dtype=torch.int64)
    side = Side(ids, ids, torch.tensor([0, tokens]))
    library = variant(TRAINING[-1].name)
    mask: Tensor = Embed.apply(  # type: ignore[no-untyped-call]
        library, side, torch.ones(1, width), torch.zeros(1, width), 1.0, Dropout(key, rate)
    )
    return mask


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.75])
def test_dropout_rate_and_rescaling(rate: float) -> None:
    mask = dropped(rate, key=7)
    kept = mask != 0
    assert torch.allclose(mask[kept], torch.tensor(1 / (1 - rate)))
    deviation = (rate * (1 - rate)) ** 0.5
    assert abs(float(kept.float().mean()) - (1 - rate)) < 4 * deviation / kept.numel() ** 0.5
    for dimension, count in ((0, 2000), (1, 40)):  # nor is a row or a column favoured: the variance of sums
        spread = float(kept.float().sum(dimension).var()) / (count * deviation**2)
        assert 0.5 < spread < 1.6


def test_every_site_and_update_has_its_own_mask() -> None:
    masks = [dropped(0.5, key) != 0 for key in (1, 2, 3, 2**63 + 1)]
    for i, mask in enumerate(masks):
        for other in masks[:i]:
            assert 0.48 < float((mask == other).float().mean()) < 0.52
    assert torch.equal(dropped(0.5, 1), dropped(0.5, 1))


def at(made: Transformer, parts: tuple[Tensor, ...]) -> tuple[float, dict[str, Tensor]]:
    torch.manual_seed(11)
    return learnt(made, parts, smoothing=0.0)


@pytest.mark.parametrize("changes", SITES)
def test_backward_uses_the_mask_of_forward(changes: dict[str, Any]) -> None:
    """With other masks the slope along the gradient would not be the gradient's length."""
    made, parts, step = network(**changes).train(), batch(), 2e-3
    with kernels(variant(TRAINING[-1].name)):
        _, gradients = at(made, parts)
        length = sum(float(gradient.double().square().sum()) for gradient in gradients.values()) ** 0.5
        directions = {name: gradient / length for name, gradient in gradients.items()}
        losses = []
        for sign in (1, -2):
            with torch.no_grad():
                for name, parameter in made.named_parameters():
                    parameter += sign * step * directions[name]
            losses.append(at(made, parts)[0])
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(length, rel=0.01)


def test_draws_come_from_pytorchs_generator() -> None:
    made, parts = network(residual_dropout=0.3).train(), batch()
    with kernels(variant(TRAINING[-1].name)):
        torch.manual_seed(3)
        before = torch.get_rng_state()
        first, second = learnt(made, parts)[0], learnt(made, parts)[0]
        torch.set_rng_state(before)
        assert learnt(made, parts)[0] == first != second


def test_no_dropout_while_evaluating() -> None:
    made, (source, inputs, outputs) = network(residual_dropout=0.3, embedding_dropout=0.3).eval(), batch()
    counted = outputs != 0
    with kernels(variant(TRAINING[-1].name)):
        features = TranslatorBackend(made).counted_features(source, inputs, counted)
        assert torch.equal(features, TranslatorBackend(made).counted_features(source, inputs, counted))
    torch.testing.assert_close(features, made.features(source, inputs)[counted], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("native", [True, False])
def test_causal_mask_hides_later_tokens(native: bool) -> None:
    made, (source, inputs, outputs) = network().eval(), batch()
    counted = torch.ones_like(outputs, dtype=torch.bool)
    inputs = inputs.clamp(min=1)
    with kernels(variant(TRAINING[-1].name) if native else None):
        features = TranslatorBackend(made).counted_features(source, inputs, counted).view(*inputs.shape, -1)
        other = inputs.clone()
        other[:, 20] = inputs[:, 20] % (VOCABULARY - 1) + 1
        changed = TranslatorBackend(made).counted_features(source, other, counted).view(*inputs.shape, -1)
    assert torch.equal(features[:, :20], changed[:, :20])
    assert not torch.equal(features[:, 20], changed[:, 20])
