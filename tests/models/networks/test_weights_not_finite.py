"""Weights that hold NaN or infinity are refused when they are loaded: such a model answers everybody with nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.networks import loading
from tests.models import tiny
from tests.models.folders import one_sentence
from tests.models.networks.test_loading import loaded, written

SAYS = "its tensor {} holds NaN or infinity, so load a sound copy or train it again"


def spoilt(network: nn.Module, name: str, value: float) -> nn.Module:
    with torch.no_grad():
        network.get_parameter(name).view(-1)[-1] = value
    return network


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["recurrent.weight_hh_l0", "output.bias"])
def test_one_non_finite_weight_is_refused(tmp_path: Path, name: str, value: float) -> None:
    folder = written(tmp_path, spoilt(tiny.recurrent(), name, value))
    with pytest.raises(CheckpointError) as refused:
        loaded(folder)
    one_sentence(str(refused.value), folder / "model.safetensors", SAYS.format(name))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_narrow_weights_are_refused(tmp_path: Path, value: float) -> None:
    name = "decoder.0.attention.projection.weight"
    folder = written(tmp_path, spoilt(tiny.transformer(), name, value).bfloat16())
    with pytest.raises(CheckpointError, match=SAYS.format(name)):
        loading.load_network(checkpoints.read(folder))


@pytest.mark.parametrize("value", [torch.finfo(torch.float32).max, torch.finfo(torch.float32).min, -0.0])
def test_every_finite_weight_is_accepted(tmp_path: Path, value: float) -> None:
    network = spoilt(tiny.recurrent(), "recurrent.weight_hh_l0", value)
    spoilt(network, "recurrent.weight_ih_l0", value)
    result = loaded(written(tmp_path, network)).get_parameter("recurrent.weight_hh_l0")
    assert result.view(-1)[-1].item() == value
