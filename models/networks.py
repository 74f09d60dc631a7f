"""From what a checkpoint says of its architecture to a network, and weights in and out of safetensors.

The one place that knows which networks there are. A new network is a new line in `NETWORKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.checkpoint import Checkpoint, CheckpointError
from models.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.transformer import Transformer
from models.transformer_config import TransformerConfig


class Entry(NamedTuple):
    config: Callable[..., Any]
    network: Callable[[Any], nn.Module]


NETWORKS = {
    "transformer": Entry(TransformerConfig, Transformer),
    "recurrent": Entry(RecurrentConfig, RecurrentLanguageModel),
}


def architecture(name: str, config: Any) -> dict[str, Any]:
    """What config.json records of a network."""
    return {"name": name, **asdict(config)}


def build(description: Mapping[str, Any]) -> nn.Module:
    """A freshly initialised network. ValueError names what is unknown or contradictory."""
    name = description.get("name")
    if name not in NETWORKS:
        raise ValueError(f"architecture {name!r} is not one of {', '.join(NETWORKS)}")
    fields = {key: value for key, value in description.items() if key != "name"}
    try:
        config = NETWORKS[name].config(**fields)
    except TypeError as error:
        raise ValueError(f"architecture {name}: {error}") from error
    return NETWORKS[name].network(config)


def save_weights(network: nn.Module, path: Path) -> None:
    """Parameters and buffers to safetensors; a tensor under two names (tied tables) is stored once."""
    save_file(unique_tensors(network), path)


def unique_tensors(network: nn.Module) -> dict[str, Tensor]:
    stored: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in network.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            stored[name] = tensor.detach().cpu().contiguous()
    return stored


def load_weights(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """ValueError if a tensor is missing, left over, or of another shape."""
    expected = {name: tuple(t.shape) for name, t in unique_tensors(network).items()}
    given = {name: tuple(t.shape) for name, t in tensors.items()}
    if expected != given:
        wrong = sorted(name for name in expected.keys() | given.keys() if expected.get(name) != given.get(name))
        raise ValueError(f"the tensors {', '.join(wrong[:3])} do not fit the architecture")
    network.load_state_dict(dict(tensors), strict=False)


def load_network(checkpoint: Checkpoint, device: torch.device | str = "cpu") -> Any:
    """The checkpoint's network with its weights, in evaluation mode, on `device`: a `Decodable`.

    CheckpointError if the architecture is unknown or the weights do not fit it.
    """
    try:
        network = build(checkpoint.config.architecture)
        load_weights(network, load_file(checkpoint.weights))
    except (ValueError, RuntimeError, SafetensorError, OSError) as error:
        raise CheckpointError(f"{checkpoint.weights} cannot be loaded: {error}.") from error
    return network.to(device).eval()
