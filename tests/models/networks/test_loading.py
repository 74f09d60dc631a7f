"""Weights in and out of a checkpoint."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, CheckpointConfig, CheckpointError
from models.networks import loading
from models.tokenizer import SpecialTokens, VocabularyTokenizer
from tests.models import tiny
from tests.models.folders import one_sentence

TOKENIZER = VocabularyTokenizer("character", ["<pad>", *"abcdefghijklmnopqr"], SpecialTokens())
MAKERS: dict[str, Callable[[], nn.Module]] = {
    **{name: (lambda given=given: tiny.transformer(**given)) for name, given in tiny.OPTIONS.items()},  # type: ignore[misc]
    **{cell: (lambda cell=cell: tiny.recurrent(cell=cell)) for cell in tiny.ALL_CELLS},  # type: ignore[misc]
    "one-hot": lambda: tiny.recurrent(embedding=0, recurrent_bias=False),
}


def written(tmp_path: Path, network: Any, **changes: Any) -> Path:
    name = "recurrent" if hasattr(network, "recurrent") else "transformer"
    staging = tmp_path / "staging"
    staging.mkdir()
    loading.save_weights(network, staging / "model.safetensors")
    return publish(tmp_path, loading.architecture(name, network.config) | changes)


def publish(
    tmp_path: Path, architecture: dict[str, Any], tokenizer: VocabularyTokenizer = TOKENIZER, **config: Any
) -> Path:
    described = CheckpointConfig(kind="lyrics", architecture=architecture, **config)
    checkpoints.write(tmp_path / "staging", tmp_path / "model", described, {"target": tokenizer})
    return tmp_path / "model"


def loaded(folder: Path) -> Any:
    return loading.load_network(checkpoints.read(folder))


def refused(folder: Path, file: str, *words: str) -> None:
    checkpoint: Checkpoint = checkpoints.read(folder)
    with pytest.raises(CheckpointError) as excinfo:
        loading.load_network(checkpoint)
    one_sentence(str(excinfo.value), folder / file, *words)


@pytest.mark.parametrize("name", MAKERS)
def test_weights_come_back_bit_by_bit(name: str, tmp_path: Path) -> None:
    network = MAKERS[name]()
    again = loaded(written(tmp_path, network))
    assert again.config == network.config
    assert not again.training
    expected, result = network.state_dict(), again.state_dict()
    assert expected.keys() == result.keys()
    assert all(torch.equal(expected[key], result[key]) for key in expected)
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in network.parameters()]
    tokens = tiny.ids((2, 4), 0)
    with torch.inference_mode():
        given = (tokens,) if hasattr(network, "recurrent") else (tokens, tokens)
        one, two = network(*given), again(*given)
    assert torch.equal(*((x[0], y[0]) if isinstance(x := one, tuple) and isinstance(y := two, tuple) else (one, two)))


def test_a_narrow_network_is_stored_narrow_and_read_wide(tmp_path: Path) -> None:
    network = tiny.transformer().to(torch.bfloat16)
    again = loaded(written(tmp_path, network))
    assert again.source_embedding.weight.dtype == torch.float32
    assert torch.equal(again.source_embedding.weight.bfloat16(), network.source_embedding.weight)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda t: t.pop("output.bias"), "output.bias"),
        (lambda t: t.update({"extra": torch.zeros(1)}), "extra"),
        (lambda t: t.update({"output.bias": torch.zeros(3)}), "output.bias"),
        (lambda t: t.update({"output.bias": t["output.bias"][None]}), "output.bias"),
        (lambda t: t.clear(), "it holds no tensors"),
    ],
    ids=["missing", "left over", "shape", "dimensions", "none"],
)
def test_mismatched_tensors_are_refused(tmp_path: Path, change: Callable[[Any], Any], word: str) -> None:
    network = tiny.recurrent()
    (tmp_path / "staging").mkdir()
    tensors = dict(loading.unique_tensors(network))
    change(tensors)
    save_file(tensors, tmp_path / "staging" / "model.safetensors")
    refused(publish(tmp_path, loading.architecture("recurrent", network.config)), "model.safetensors", word)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": "mamba"}, "architecture 'mamba' is not one of transformer, recurrent"),
        ({"name": None}, "architecture None"),
        ({"hidden": 0}, "hidden must be a whole number of at least 1"),
        ({"hidden": 10.0}, "hidden must be"),
        ({"hidden": "ten"}, "hidden must be"),
        ({"cell": "qrnn"}, f"cell must be one of {', '.join(tiny.ALL_CELLS)}"),
        ({"cell": ["gru"]}, "unhashable"),
        ({"dropout": "x"}, "architecture recurrent"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"hidden": 10**30}, "describes no network"),
    ],
    ids=str,
)
def test_invalid_architectures_are_refused(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
    refused(written(tmp_path, tiny.recurrent(), **changes), "config.json", word)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"activation": "tanh"}, "activation must be one of"),
        ({"norm": "none"}, "norm must be one of"),
        ({"positions": "rotary"}, "positions must be one of"),
        ({"tied": "all"}, "one vocabulary"),
        ({"heads": 0, "d_ff": 0}, "heads must be a whole number of at least 1, not 0; d_ff must"),
    ],
    ids=str,
)
def test_invalid_transformer_configs_are_refused(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
    refused(written(tmp_path, tiny.transformer(), **changes), "config.json", word)


def test_sizes_unlike_the_weights_are_refused(tmp_path: Path) -> None:
    refused(written(tmp_path, tiny.recurrent(), hidden=11), "model.safetensors", "do not fit the architecture")


@pytest.mark.parametrize("config", [{"eos": 19}, {"suppressed": (0, 500)}, {"target_prefix": (19,)}], ids=str)
def test_special_ids_outside_the_tables_are_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    network = tiny.recurrent()
    (tmp_path / "staging").mkdir()
    loading.save_weights(network, tmp_path / "staging" / "model.safetensors")
    folder = publish(tmp_path, loading.architecture("recurrent", network.config), **config)
    refused(folder, "config.json", "its target tokens reach beyond the network's 19")


def test_a_tokenizer_with_more_tokens_than_the_network(tmp_path: Path) -> None:
    network = tiny.recurrent()
    (tmp_path / "staging").mkdir()
    loading.save_weights(network, tmp_path / "staging" / "model.safetensors")
    larger = VocabularyTokenizer("character", [*TOKENIZER.vocabulary, "!"], SpecialTokens())
    folder = publish(tmp_path, loading.architecture("recurrent", network.config), larger)
    refused(folder, "config.json", "its target tokens reach beyond the network's 19")


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("save", [lambda bomb, path: path.write_bytes(pickle.dumps(bomb)), torch.save])
def test_pickle_is_never_executed(tmp_path: Path, save: Callable[[Any, Path], Any]) -> None:
    (tmp_path / "staging").mkdir()
    mark = tmp_path / "the code ran"
    save(Bomb(mark), tmp_path / "staging" / "model.safetensors")
    folder = publish(tmp_path, loading.architecture("recurrent", tiny.recurrent().config))
    refused(folder, "model.safetensors", "cannot be loaded")
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists(), "it would have"


@pytest.mark.parametrize("content", [b"", b"\x00" * 8, b"\xff" * 100, b"\x02\x00\x00\x00\x00\x00\x00\x00{}garbage"])
def test_invalid_weights_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "staging").mkdir()
    (tmp_path / "staging" / "model.safetensors").write_bytes(content)
    refused(publish(tmp_path, loading.architecture("recurrent", tiny.recurrent().config)), "model.safetensors")


def test_weights_removed_after_the_check_are_reported(tmp_path: Path) -> None:
    folder = written(tmp_path, tiny.recurrent())
    checkpoint = checkpoints.read(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be loaded"):
        loading.load_network(checkpoint)


def test_only_parameters_are_stored(tmp_path: Path) -> None:
    network = tiny.transformer()
    network(tiny.ids((1, 3), 0), tiny.ids((1, 3), 0))  # grows the table of positions
    loading.save_weights(network, tmp_path / "weights")
    assert set(load_file(tmp_path / "weights")) == {name for name, _ in network.named_parameters()}


def test_weights_that_16_bits_hold_are_stored_in_16_bits(tmp_path: Path) -> None:
    network = tiny.transformer()
    loading.save_weights(network, tmp_path / "whole")
    rounded = {name: tensor.half().float() for name, tensor in network.state_dict().items()}
    network.load_state_dict(rounded)
    loading.save_weights(network, tmp_path / "halves")
    assert (tmp_path / "halves").stat().st_size < 0.6 * (tmp_path / "whole").stat().st_size
    again = tiny.transformer(seed=2)
    loading.load_weights(again, load_file(tmp_path / "halves"))
    assert all(torch.equal(tensor, rounded[name]) for name, tensor in again.state_dict().items())
