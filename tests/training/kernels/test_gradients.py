"""Gradients of the training kernels: one backward pass, gradients of some weights alone, no second derivative."""

from __future__ import annotations

import pytest
import torch

from models.backends.native.build import TRAINING
from tests.training.kernels.test_packed_transformer import VOCABULARY, batch, kernels, network, variant
from training.kernels.training_backend import TranslatorBackend


def test_a_second_backward_pass_is_refused_in_a_sentence() -> None:
    made, features = network(), torch.randn(5, 32, requires_grad=True)
    with kernels(variant(TRAINING[-1].name)):
        loss = TranslatorBackend(made).cross_entropy(features, torch.arange(5))
    loss.backward()  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match=r"differentiated once already.*compute it anew\."):
        loss.backward()  # type: ignore[no-untyped-call]


def test_a_bias_learns_where_nothing_else_does() -> None:
    results = []
    for library in (variant(TRAINING[-1].name), None):
        made = network(output_bias=True).requires_grad_(False)
        assert made.output_bias is not None
        made.output_bias.requires_grad_(True)
        torch.manual_seed(3)
        with kernels(library):
            loss = TranslatorBackend(made).cross_entropy(torch.randn(7, 32), torch.arange(7) % VOCABULARY, 0.1)
        loss.backward()  # type: ignore[no-untyped-call]
        results.append(made.output_bias.grad)
    assert results[0] is not None
    torch.testing.assert_close(*results)


def test_a_second_derivative_is_refused_and_not_wrong() -> None:
    made, (source, inputs, outputs) = network(), batch(3, 9, 8)
    weight = made.encoder[0].feed_forward.widen.weight
    with kernels(variant(TRAINING[-1].name)):
        features = TranslatorBackend(made).counted_features(source, inputs, outputs != 0)
    (first,) = torch.autograd.grad(features.square().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()  # type: ignore[no-untyped-call]
