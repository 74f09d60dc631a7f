"""A network that is about to load its weights draws no random ones."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from models import exactness
from models.checkpoint import Checkpoint, CheckpointConfig, read, write
from models.exactness import DRAWS, Undrawn, as_written
from models.networks import loading
from models.networks.loading import build, load_network, save_weights
from models.networks.recurrent import RecurrentConfig
from models.networks.transformer import TransformerConfig
from models.tokenizer import SpecialTokens, VocabularyTokenizer

SMALL: dict[str, Any] = {
    "d_model": 8,
    "heads": 2,
    "head_width": 4,
    "d_ff": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
}
TRANSFORMER = {"name": "transformer", **asdict(TransformerConfig(source_vocabulary=9, target_vocabulary=9, **SMALL))}
RECURRENT = {"name": "recurrent", **asdict(RecurrentConfig(vocabulary=9, embedding=4, hidden=8, layers=2))}


@pytest.mark.parametrize("architecture", [TRANSFORMER, {**TRANSFORMER, "tied": "all"}, RECURRENT])
def test_undrawn_network_uses_no_random_numbers(architecture: dict[str, Any]) -> None:
    before = torch.get_rng_state()
    with Undrawn():
        build(architecture)
    assert torch.equal(torch.get_rng_state(), before)
    build(architecture)
    assert not torch.equal(torch.get_rng_state(), before)


def test_buffers_of_undrawn_network_are_initialised() -> None:
    expected = build(TRANSFORMER)
    with Undrawn():
        network = build(TRANSFORMER)
    loaded = expected.state_dict().keys()
    others = {name: buffer for name, buffer in expected.named_buffers() if name not in loaded}
    result = dict(network.named_buffers())
    assert all(torch.equal(result[name], buffer) for name, buffer in others.items())
    assert network.state_dict().keys() == loaded


def test_loaded_network_equals_the_saved_one(tmp_path: Path) -> None:
    tokenizer = VocabularyTokenizer("character", list("abcdefghi"), SpecialTokens(pad=None))
    network = build(RECURRENT)
    (tmp_path / "staging").mkdir()
    save_weights(network, tmp_path / "staging" / "model.safetensors")
    config = CheckpointConfig(kind="lyrics", architecture=RECURRENT)
    write(tmp_path / "staging", tmp_path / "m", config, {"target": tokenizer})
    checkpoint: Checkpoint = read(tmp_path / "m")
    before = torch.get_rng_state()
    loaded = load_network(checkpoint)
    assert torch.equal(torch.get_rng_state(), before)
    for name, tensor in network.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert loading.unique_tensors(loaded).keys() == loading.unique_tensors(network).keys()


class RecordedCalls(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.functions: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.functions.add(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("architecture", [TRANSFORMER, RECURRENT])
def test_the_network_that_kernels_compare_with_draws_nothing(architecture: dict[str, Any]) -> None:
    """On the meta device a draw imports PyTorch's compiler, which takes more than a second."""
    network: Any = build(architecture)
    exactness._on_meta.cache_clear()
    with RecordedCalls() as recorded:
        plain = as_written(network, type(network))
    assert recorded.functions and not recorded.functions & DRAWS
    assert {name: tensor.shape for name, tensor in plain.named_parameters()} == {
        name: tensor.shape for name, tensor in network.named_parameters()
    }
