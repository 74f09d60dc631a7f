"""Ablation of attention heads: the change in score of the output tokens, and the network without the heads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from torch import Tensor, nn

from models.decoding.options import TokenRules
from models.inspection.forced_pass import by_layer, forced_pass, forced_steps
from models.inspection.results import Ablation, SilencedHead
from models.inspection.selection import Head, SelectionError
from models.networks.loading import copied
from models.networks.transformer import MultiHeadAttention, Transformer


def ablation(
    network: Transformer,
    source: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    masked: Sequence[Head],
    rules: TokenRules,
) -> Ablation:
    """source, inputs: see `forced_pass`; outputs: tokens after the last inputs. SelectionError for an unknown head."""
    scores = list[list[float]]()
    for heads in ((), masked):
        logits = forced_pass(network, source, inputs, (), masked=heads).logits
        scores.append([step.logprob for step in forced_steps(logits[len(logits) - len(outputs) :], outputs, rules)])
    before, after = scores
    deltas = [0.0 if new == old else new - old for old, new in zip(before, after, strict=True)]
    silenced = [SilencedHead(head.kind, head.layer, head.head) for head in masked]
    return Ablation(silenced, sum(before), sum(after), deltas)


def without_heads(network: Transformer, masked: Sequence[Head]) -> Transformer:
    """A copy of the network without these heads, for decoding (`models.decoding.decoder.decode`). It zeroes columns
    h·D..(h+1)·D of the output projection's input. The copy shares all tensors with the network; a reused module stays
    shared where all heads stay. SelectionError for an unknown head."""
    shared = {id(each): each for each in (*network.parameters(), *network.buffers())}
    try:
        without = copied(network, dict(shared))
        for kind, layers in by_layer(masked, network.config).items():
            stack = cast(nn.ModuleList, without.encoder if kind == "encoder" else without.decoder)
            name = "cross_attention" if kind == "cross" else "attention"
            for number, heads in layers.items():
                stack[number] = layer = copied(stack[number], dict(shared))
                attention = copied(cast(MultiHeadAttention, layer.get_submodule(name)), dict(shared))
                setattr(layer, name, attention)
                attention.output.register_forward_pre_hook(partial(_without, heads, attention.head_width))
    except (AttributeError, ValueError) as error:
        raise SelectionError(f"Heads cannot be taken away here: {error}.", "masked") from error
    return without


def _without(heads: Sequence[int], width: int, _: nn.Module, read: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Zeroes heads in the input [..., H·D] of the output projection."""
    x = read[0].clone()
    for head in heads:
        x[..., head * width : (head + 1) * width] = 0.0
    return x, *read[1:]
