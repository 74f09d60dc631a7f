"""What changes where heads are taken away: on the tokens that were written, and in what would be written instead."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from models.decoding.options import TokenRules
from models.exactness import copied
from models.inspection.forced_pass import forced_pass, forced_steps
from models.inspection.results import Ablation
from models.inspection.selection import Head, SelectionError, by_layer
from models.networks.transformer import MultiHeadAttention, Transformer


def ablation(
    network: Transformer,
    source: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    masked: Sequence[Head],
    rules: TokenRules,
) -> Ablation:
    """source, inputs: as of `forced_pass`; outputs: the tokens behind the last so many inputs. SelectionError for a
    head that is not there."""
    scores = list[list[float]]()
    for heads in ((), masked):
        logits = forced_pass(network, source, inputs, (), masked=heads).logits
        scores.append([step.logprob for step in forced_steps(logits[len(logits) - len(outputs) :], outputs, rules)])
    before, after = scores
    deltas = [0.0 if new == old else new - old for old, new in zip(before, after, strict=True)]
    return Ablation(list(masked), sum(before), sum(after), deltas)


def without_heads(network: Transformer, masked: Sequence[Head]) -> Transformer:
    """The network without these heads, to be decoded like any other (`models.decoding.decoder.decode`).

    A head's context enters its layer through columns h·D..(h+1)·D of the output projection: in the copy these are 0.
    Every other tensor is the network's own. SelectionError for a head that is not there.
    """
    found = {
        (kind, layer): heads
        for kind, layers in by_layer(masked, network.config).items()
        for layer, heads in layers.items()
    }
    changed = {id(_attention(network, *place).output.weight) for place in found}
    tensors = [*network.parameters(), *network.buffers()]
    try:
        without = copied(network, {id(each): each for each in tensors if id(each) not in changed})
    except ValueError as error:
        raise SelectionError(f"Heads cannot be taken away here: {error}.", "masked") from error
    for place, heads in found.items():
        module = _attention(without, *place)
        with torch.no_grad():
            for head in heads:
                module.output.weight[:, head * module.head_width : (head + 1) * module.head_width] = 0.0
    return without


def _attention(network: Transformer, kind: str, layer: int) -> MultiHeadAttention:
    if kind == "encoder":
        return network.encoder_layers[layer].attention
    decoder = network.decoder_layers[layer]
    return decoder.attention if kind == "decoder" else decoder.cross_attention
