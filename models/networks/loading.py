"""Builds networks from a checkpoint's architecture, copies them, and saves and loads weights as safetensors. The only
module that lists all networks: a new network is a new line in `NETWORKS`."""

from __future__ import annotations

import copy
import logging
import os
import types
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.checkpoint import CONFIG, Checkpoint, CheckpointError, check_weights_header
from models.exactness import Undrawn, edits_of, fingerprint, is_ours, methods, without_memory
from models.networks.cells import CELLS
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel, edits_of_cell
from models.networks.transformer import Transformer, TransformerConfig
from models.weights_file import read_header

N = TypeVar("N", bound=nn.Module)
log = logging.getLogger(__name__)
NETWORKS: dict[str, tuple[Callable[..., Any], Callable[[Any], nn.Module]]] = {
    "transformer": (TransformerConfig, Transformer),
    "recurrent": (RecurrentConfig, RecurrentLanguageModel),
}


def architecture(name: str, config: TransformerConfig | RecurrentConfig) -> dict[str, Any]:
    """The architecture as recorded in config.json."""
    return {"name": name, **asdict(config)}


def edited_code(network: Any) -> dict[str, str]:
    """What was edited of the network's code, as recorded in config.json: function, method or cell -> fingerprint. How
    fresh weights are drawn and options are checked is left out: it says nothing about trained ones."""
    kinds = {kind for module in network.modules() for kind in type(module).__mro__ if issubclass(kind, nn.Module)}
    found = dict[str, str]()
    for kind in kinds:
        if is_ours(kind.__module__):
            found |= edits_of([kind])
        elif not kind.__module__.startswith("torch."):
            found |= {f"{kind.__qualname__}.{name}": fingerprint(vars(kind)[name]) for name in methods(kind)}
    cell = getattr(network.config, "cell", None)
    if cell and edits_of_cell(cell):
        found[f"cell {cell}"] = fingerprint(CELLS[cell].step)
    passed_by = "._initialise", ".__post_init__"
    return {label: digits for label, digits in sorted(found.items()) if digits and not label.endswith(passed_by)}


def code_warning(checkpoint: Checkpoint, network: Any) -> str | None:
    """A sentence if the network's code is not that with which its weights were trained; shapes alone do not tell."""
    trained, runs = checkpoint.config.edited_code, edited_code(network)
    others = sorted(name for name in trained.keys() | runs.keys() if trained.get(name) != runs.get(name))
    if not others:
        return None
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return (
        f"The weights of {checkpoint.name} were trained with other code than runs here ({', '.join(others[:3])}{more}),"
        " so that its outputs are not those of its training: restore that code, or train it anew."
    )


def build(description: Mapping[str, Any]) -> nn.Module:
    """A freshly initialised network. ValueError names unknown or contradictory options."""
    of_config, config = _described(description)
    return of_config(config)


def _described(description: Mapping[str, Any]) -> tuple[Callable[[Any], nn.Module], Any]:
    """The constructor of a network and its config."""
    name = description.get("name")
    if name not in NETWORKS:
        raise ValueError(f"architecture {name!r} is not one of {', '.join(NETWORKS)}")
    fields = {key: value for key, value in description.items() if key != "name"}
    of_fields, of_config = NETWORKS[name]
    try:
        return of_config, of_fields(**fields)
    except TypeError as error:
        raise ValueError(f"architecture {name}: {error}") from error


def uncopyable(network: nn.Module) -> str | None:
    """The name of a module that has an own function in place of a method, which in a copy would still run the original
    module. "the network": the network itself."""
    for name, module in network.named_modules():
        for key, own in module.__dict__.items():
            if isinstance(own, types.FunctionType) and hasattr(type(module), key):
                return name or "the network"
    return None


def copied(network: N, memo: dict[int, object]) -> N:
    """A deep copy that shares the tensors in memo (by id). ValueError if a module cannot be copied."""
    if name := uncopyable(network):
        raise ValueError(f"{name} has a forward that no copy can have")
    try:
        return copy.deepcopy(network, memo)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"the network has a tensor or an object that no copy can have ({error})") from error


def save_weights(network: nn.Module, path: Path) -> None:
    """Writes parameters and buffers to safetensors; a tensor with two names (tied embeddings) is stored once. Weights
    that fp16 holds without loss take half the space in it."""
    tensors = unique_tensors(network)
    halves = {name: tensor.half() for name, tensor in tensors.items()}
    if all(torch.equal(halves[name].to(tensor.dtype), tensor) for name, tensor in tensors.items()):
        tensors = halves
    save_file(tensors, path)
    # safetensors sets mode 0600, but a server often runs as another user
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)


def unique_tensors(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in _unique(network).items()}


def _unique(network: nn.Module) -> dict[str, Tensor]:
    stored: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            stored[name] = tensor
    return stored


def _shapes(network: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in _unique(network).items()}


class TensorsDoNotFit(ValueError):
    """The weights are those of another network."""


def load_weights(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """TensorsDoNotFit for a missing, unexpected or misshapen tensor."""
    _require_same(_shapes(network), {name: tuple(t.shape) for name, t in tensors.items()})
    network.load_state_dict(dict(tensors), strict=False)


def _require_same(expected: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]]) -> None:
    if expected != given:
        wrong = sorted(name for name in expected.keys() | given.keys() if expected.get(name) != given.get(name))
        raise TensorsDoNotFit(f"the tensors {', '.join(wrong[:3])} do not fit the architecture")


def load_network(checkpoint: Checkpoint, device: torch.device | str = "cpu") -> Any:
    """The checkpoint's network with its weights, in evaluation mode, on `device`: a `Network`. Logs the
    `code_warning`. CheckpointError if the architecture is unknown, or the weights do not fit it or are not all
    finite."""
    check_weights_header(checkpoint.folder, checkpoint.config)
    try:  # config.json may have no checksum, so any exception is an error of the checkpoint
        expected = _shapes_without_memory(checkpoint.config.architecture)
        if expected is not None:
            _require_same(expected, read_header(checkpoint.weights))
        with Undrawn():
            network = build(checkpoint.config.architecture)
        _check_ids(checkpoint, network.config)
    except TensorsDoNotFit as error:
        raise CheckpointError(f"{checkpoint.weights} cannot be loaded: {error}.") from error
    except Exception as error:
        config = checkpoint.folder / CONFIG
        raise CheckpointError(f"{config} describes no network that can be built: {_reason(error)}.") from error
    try:
        load_weights(network, load_file(checkpoint.weights))
        _check_finite(network)
    except (ValueError, RuntimeError, SafetensorError, OSError) as error:
        raise CheckpointError(f"{checkpoint.weights} cannot be loaded: {_reason(error)}.") from error
    if warning := code_warning(checkpoint, network):
        log.warning(warning)
    return network.to(device).eval()


def _shapes_without_memory(architecture: Mapping[str, Any]) -> dict[str, tuple[int, ...]] | None:
    """The shapes of the network's tensors, before anything is allocated for them; None of a network that computes with
    values while it is built, which cannot be done on the meta device."""
    try:
        return _shapes(without_memory(*_described(architecture)))
    except NotImplementedError:
        return None


def _check_finite(network: nn.Module) -> None:
    """ValueError names a tensor with NaN or infinity. Minimum and maximum suffice, since NaN propagates to both, and
    take a tenth of the time of an elementwise check."""
    for name, tensor in unique_tensors(network).items():
        if tensor.is_floating_point() and tensor.numel():
            least, greatest = torch.aminmax(tensor)
            if not (least > -torch.inf and greatest < torch.inf):
                raise ValueError(f"its tensor {name} holds NaN or infinity, so load a sound copy or train it again")


def _check_ids(checkpoint: Checkpoint, network: Any) -> None:
    """ValueError for ids outside the embedding tables: on a GPU such an id would end the process, not the request."""
    config, tokenizers = checkpoint.config, checkpoint.tokenizers
    vocabulary = {
        "source": getattr(network, "source_vocabulary", None),
        "target": getattr(network, "target_vocabulary", None) or network.vocabulary,
    }
    prefixes = (token for pair in config.language_pairs for token in pair.source_prefix)
    given = {
        "source": (*config.source_prefix, *config.source_suffix, *prefixes),
        "target": (*config.target_prefix, *config.suppressed, config.eos or 0),
    }
    for side, tokenizer in tokenizers.items():
        size = vocabulary[side] or 0
        if tokenizer.size > size or any(token >= size for token in given[side]):
            raise ValueError(f"its {side} tokens reach beyond the network's {size}")


def _reason(error: Exception) -> str:
    """The first line of an error message, without the stack traces that libraries append, to end a sentence with."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(" .")
