"""A forward pass told step by step, as one place of one layer and one head sees it. The numbers are those that the
network computes on the way: its own modules run, in their own order, and what goes in and comes out is written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from models.attention import Capture
from models.inspection.forced import explicable, one_row
from models.inspection.selection import SelectionError, within
from models.inspection.sublayers import Place, Sublayers
from models.inspection.walked import Walk, Walked
from models.options import TokenRules
from models.suppression import log_probabilities
from models.transformer import Transformer

Side = Literal["encoder", "decoder"]


@torch.inference_mode()
def walkthrough(
    network: Transformer,
    source: Sequence[int],
    inputs: Sequence[int],
    *,
    side: Side,
    layer: int,
    head: int,
    position: int,
    rules: TokenRules,
    most: int = 8,
    most_keys: int = 64,
) -> list[Walked]:
    """source: encoder ids; inputs: decoder ids. side: whose layer, head and position. Of each vector the first `most`
    values are told, of matrices by key the first `most_keys` keys, of logits and probabilities the `most` largest.
    rules: by which probabilities are counted. SelectionError for what is not there."""
    explicable(network)
    if most < 1 or most_keys < 1:
        raise SelectionError("At least one value must be told of each vector.", "most")
    place = _place(network, side, layer, head, position, len(source if side == "encoder" else inputs))
    walk = Walk(most, most_keys)
    if side == "encoder":
        _encoder(network, walk, place, one_row(source, network))
    else:
        memory = network.encode(one_row(source, network), Capture())
        _output(network, walk, place, _decoder(network, walk, place, one_row(inputs, network), *memory), rules)
    return walk.steps


def _place(network: Transformer, side: str, layer: int, head: int, position: int, length: int) -> Place:
    config = network.config
    if side not in ("encoder", "decoder"):
        raise SelectionError(f"There is no side {side!r}; the sides are encoder, decoder.", "side")
    depth = config.encoder_layers if side == "encoder" else config.decoder_layers
    return Place(
        within(layer, depth, f"{side} layer", "layer"),
        within(head, config.heads, "head", "head"),
        within(position, length, "position", "position", f"the {side}'s input"),
    )


def _encoder(network: Transformer, walk: Walk, place: Place, source: Tensor) -> None:
    mask = (source != network.config.pad)[:, None, None, :]
    x = _embedded(network, walk, place, network.source_embedding, source)
    for layer in network.encoder_layers[: place.layer]:
        x = layer(x, mask, Capture())
    told, layer = Sublayers(walk, place, network.config.activation), network.encoder_layers[place.layer]
    told.entering(x)
    x = told.attention(layer.attention, layer.around_attention, x, None, mask, "self-attention")
    x = told.feed_forward(layer.feed_forward, layer.around_feed_forward, x)
    if place.layer == len(network.encoder) - 1:
        _final(network.encoder_norm, walk, place, x)


def _decoder(
    network: Transformer, walk: Walk, place: Place, target: Tensor, memory: Tensor, readable: Tensor
) -> Tensor | None:
    """What goes into the output projection; None where another layer comes before that."""
    mask = readable[:, None, None, :]
    x = _embedded(network, walk, place, network.target_embedding, target)
    for layer in network.decoder_layers[: place.layer]:
        given = layer.cross_attention.key_value(memory)
        x = layer(x, lambda key, value: (key, value), None, given, mask, (Capture(), Capture()))
    told, layer = Sublayers(walk, place, network.config.activation), network.decoder_layers[place.layer]
    told.entering(x)
    x = told.attention(layer.attention, layer.around_attention, x, None, None, "self-attention")
    x = told.attention(layer.cross_attention, layer.around_cross, x, memory, mask, "cross-attention")
    x = told.feed_forward(layer.feed_forward, layer.around_feed_forward, x)
    return _final(network.decoder_norm, walk, place, x) if place.layer == len(network.decoder) - 1 else None


def _embedded(network: Transformer, walk: Walk, place: Place, embedding: nn.Module, ids: Tensor) -> Tensor:
    at, scale = place.position, network.embedding_scale
    row, x = embedding(ids)[0, at], network.embed(embedding, ids)
    walk.vector("token embedding", f"e = E[{int(ids[0, at])}]", row)
    walk.vector("scale", f"s = {scale:.6g} · e", row * scale)
    walk.vector("position", f"p = PE[{at}]", network.positions(ids.size(1))[at])
    walk.vector("sum", "x = s + p", x[0, at])
    return x


def _final(norm: nn.Module, walk: Walk, place: Place, x: Tensor) -> Tensor:
    """What the stack gives, behind its own norm if it has one."""
    if isinstance(norm, nn.Identity):
        return x
    walk.part = "output"
    normed: Tensor = norm(x)
    walk.vector("final norm", "x' = LayerNorm(x)", normed[0, place.position])
    return normed


def _output(network: Transformer, walk: Walk, place: Place, x: Tensor | None, rules: TokenRules) -> None:
    if x is None:
        return
    walk.part = "output"
    logits = network.project(x)[0, place.position]
    bias = "" if network.output_bias is None else " + b"
    walk.largest("logits", f"l = x'·Uᵀ{bias}", logits)
    probabilities = log_probabilities(logits[None], rules).double().exp()[0]
    walk.largest("probabilities", "exp(l) / sum(exp(l)), as decoding counts them", probabilities)
