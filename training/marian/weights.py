"""A Marian folder's tensors under the names of `models.transformer.Transformer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from models.positions import sinusoids
from models.transformer import Transformer
from models.transformer_config import TransformerConfig
from training.errors import TrainingError
from training.marian.architecture import transformer_config

SUBLAYERS = {  # ours: theirs
    "around_attention.norm": "self_attn_layer_norm",
    "feed_forward.widen": "fc1",
    "feed_forward.narrow": "fc2",
    "around_feed_forward.norm": "final_layer_norm",
}
ATTENTION = {"attention": "self_attn"}
CROSS = {"cross_attention": "encoder_attn"}
SHARED, SOURCE, TARGET = (f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"
POSITIONS = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))


def network_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Transformer:
    """Without a second copy of what needs no change. TrainingError names a tensor that is missing, or too many."""
    given = Given(tensors)
    tables = _tables(config, given)
    described = transformer_config(config, _tied(*tables))
    found = dict(zip(("source_embedding.weight", "target_embedding.weight", "output.weight"), tables, strict=True))
    found |= {name: tensor for side in ("encoder", "decoder") for name, tensor in _layers(config, given, side)}
    rows = described.target_vocabulary
    found["output_bias"] = given.take(BIAS).reshape(-1) if BIAS in given else torch.zeros(rows)
    _check_positions(given, described)
    given.nothing_left()
    with torch.device("meta"):  # no memory for weights that are replaced at once
        network = Transformer(described)
    expected = dict(network.named_parameters())  # tied tables once
    for name, parameter in expected.items():
        if found[name].shape != parameter.shape:
            there, here = (tuple(tensor.shape) for tensor in (found[name], parameter))
            raise TrainingError(f"config.json asks for {name} of the shape {here}, and the weights have {there}.")
    network.load_state_dict({name: found[name].float() for name in expected}, strict=False, assign=True)
    return network.eval()


class Given:
    """Tensors, and which of them nobody has asked for yet."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors, self._left = tensors, dict.fromkeys(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, *names: str) -> Tensor:
        """The first that there is."""
        for name in names:
            if name in self._tensors:
                self._left.pop(name, None)
                return self._tensors[name]
        raise TrainingError(f"The weights hold no tensor {names[0]}.")

    def nothing_left(self) -> None:
        for name in self._left:
            raise TrainingError(f"The weights hold a tensor {name}, which no Marian network has that can be imported.")


def _tables(config: Mapping[str, Any], given: Given) -> tuple[Tensor, Tensor, Tensor]:
    """Of source, target and output. Where the config says that some are one, the file need hold but one of them."""
    shared = bool(config.get("share_encoder_decoder_embeddings", True))
    tied = bool(config.get("tie_word_embeddings", True))
    for name in (SHARED, SOURCE, TARGET, OUTPUT):  # present and unused is no mistake: they are the same tensors
        if name in given:
            given.take(name)
    source = given.take(SHARED, SOURCE, TARGET, OUTPUT) if shared and tied else given.take(SOURCE, SHARED)
    target = source if shared and tied else given.take(TARGET, SHARED)
    output = target if tied else given.take(OUTPUT)
    for name, table in ((SOURCE, source), (TARGET, target), (OUTPUT, output)):
        if name in given and not _same(given.take(name), table):
            raise TrainingError(f"config.json ties the embeddings, and {name} differs from the table it is tied to.")
    return source, target, output


def _tied(source: Tensor, target: Tensor, output: Tensor) -> str:
    if not _same(target, output):
        return "none"
    return "all" if _same(source, target) else "output"


def _same(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and torch.equal(one, other))


def _layers(config: Mapping[str, Any], given: Given, side: str) -> Iterator[tuple[str, Tensor]]:
    decoder = side == "decoder"
    sublayers = {**SUBLAYERS, **({"around_cross.norm": "encoder_attn_layer_norm"} if decoder else {})}
    for number in range(config[f"{side}_layers"]):
        ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
        for name in ("weight", "bias"):
            for mine, other in sublayers.items():
                yield f"{ours}.{mine}.{name}", given.take(f"{theirs}.{other}.{name}")
            for mine, other in {**ATTENTION, **(CROSS if decoder else {})}.items():
                parts = [given.take(f"{theirs}.{other}.{part}_proj.{name}") for part in "qkv"]
                yield f"{ours}.{mine}.projection.{name}", torch.cat(parts)
                yield f"{ours}.{mine}.output.{name}", given.take(f"{theirs}.{other}.out_proj.{name}")


def _check_positions(given: Given, config: TransformerConfig) -> None:
    """Older files hold the table of positions; ours is computed, and must be the same."""
    for name in POSITIONS:
        if name not in given:
            continue
        table = given.take(name).float()
        computed = sinusoids(len(table), config.d_model, "marian")
        if table.shape != computed.shape or not torch.allclose(table, computed, atol=1e-3):
            raise TrainingError(f"{name} holds other positions than Marian's sinusoids, and only these are supported.")
