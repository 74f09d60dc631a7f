"""Attention through all layers at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from models.inspection.attention_maps import ROLLOUT_CAVEAT, ROLLOUT_METHOD, rollout
from models.inspection.forced_pass import forced_pass
from models.inspection.results import Rollout
from tests.models import tiny

SOURCE, INPUTS = [3, 4, 0, 5, 6], [1, 7, 8, 4]


class Tensors(NamedTuple):
    encoder: torch.Tensor
    cross: torch.Tensor
    source_share: torch.Tensor


def as_tensors(found: Rollout) -> Tensors:
    return Tensors(*(torch.tensor(rows) for rows in (found.encoder, found.cross, found.source_share)))


@pytest.mark.parametrize("options", tiny.OPTIONS.values(), ids=tiny.OPTIONS.keys())
def test_rows_sum_to_1(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    maps = forced_pass(network, SOURCE, INPUTS).maps
    result = as_tensors(rollout(maps["encoder"], maps["decoder"], maps["cross"]))
    assert (result.encoder.shape, result.cross.shape) == ((5, 5), (4, 5))
    for rows in (result.encoder, result.cross):
        assert (rows.sum(dim=-1) - 1).abs().max() <= 1e-6
        assert (rows >= 0).all()
    if network.config.pad == 0:
        assert (result.cross[:, 2] == 0).all(), "what nobody reads gets nothing"
    assert (result.source_share > 0.5 - 1e-6).all()
    assert (result.source_share < 1).all()


def test_rollout_equals_the_formula() -> None:
    network = tiny.transformer(**tiny.OPTIONS["unequal depths"])
    maps = forced_pass(network, SOURCE, INPUTS).maps
    encoder, decoder, cross = (
        [layer.double().numpy().mean(axis=0) for layer in maps[kind]] for kind in ("encoder", "decoder", "cross")
    )
    memory = np.eye(5)
    for weights in encoder:
        memory = (weights + np.eye(5)) / 2 @ memory
    own, other = np.eye(4), np.zeros((4, 5))
    for self_weights, cross_weights in zip(decoder, cross, strict=True):
        mixed = (self_weights + np.eye(4)) / 2
        own, other = mixed @ own, mixed @ other
        own, other = own / 2, (other + cross_weights @ memory) / 2
    result = as_tensors(rollout(maps["encoder"], maps["decoder"], maps["cross"]))
    np.testing.assert_allclose(result.encoder.numpy(), memory, rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.source_share.numpy(), other.sum(axis=1), rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.cross.numpy(), other / other.sum(axis=1, keepdims=True), rtol=0, atol=1e-6)


def test_one_layer_by_hand() -> None:
    encoder, decoder = torch.tensor([[[0.0, 1.0], [0.5, 0.5]]]), torch.tensor([[[1.0]]])
    result = rollout([encoder], [decoder], [torch.tensor([[[0.0, 1.0]]])])
    assert result.encoder == [[0.5, 0.5], [0.25, 0.75]]
    assert (result.cross, result.source_share) == ([[0.25, 0.75]], [0.5])


def test_rollout_of_padding_is_the_identity() -> None:
    maps = forced_pass(tiny.transformer(), [0, 0], INPUTS).maps
    result = as_tensors(rollout(maps["encoder"], maps["decoder"], maps["cross"]))
    assert torch.equal(result.encoder, torch.eye(2))
    assert (result.cross == 0).all(), "no row reads anything of it"
    assert (result.source_share == 0).all()


def test_rollout_documents_its_limits() -> None:
    assert "Abnar & Zuidema 2020" in ROLLOUT_METHOD
    assert "1/2" in ROLLOUT_METHOD
    assert "no proof" in ROLLOUT_CAVEAT
