"""Reorders the channels of a Transformer, so that sinusoids interleaved as in the paper become Marian's halves.

A sum over channels does not depend on their order, and neither do the mean and variance of a layer norm. So a network
with positions PE[2i] = sin, PE[2i + 1] = cos is the same network with all sines first, if every tensor that reads or
writes the residual stream is reordered alike. The inverse order gives back the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

AXES: dict[
    tuple[str, ...], int
] = {  # the last two parts of a parameter's name -> the axis of its tensor that runs over the channels
    **dict.fromkeys([("source_embedding", "weight"), ("target_embedding", "weight")], 1),
    **dict.fromkeys([("projection", "weight"), ("widen", "weight")], 1),
    **dict.fromkeys([(name, kind) for name in ("output", "narrow", "norm") for kind in ("weight", "bias")], 0),
    **dict.fromkeys([(name, kind) for name in ("encoder_norm", "decoder_norm") for kind in ("weight", "bias")], 0),
}
LOGITS = "output.weight"  # [V, C], unlike the output of an attention, [C, H·D]


def marian_order(width: int) -> Tensor:
    """[width]: of each channel in Marian's layout, its number in the interleaved layout."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def reorder_channels(tensors: Iterable[tuple[str, Tensor]], order: Tensor) -> Mapping[str, Tensor]:
    """The tensors of a Transformer, by our names, with channel order[i] at place i."""
    reordered = {}
    for name, tensor in tensors:
        axis = 1 if name == LOGITS else AXES.get(tuple(name.split(".")[-2:]))
        reordered[name] = tensor if axis is None else tensor.index_select(axis, order)
    return reordered
