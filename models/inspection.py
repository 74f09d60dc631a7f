"""What a network can show of itself. A network that can show its attention has an `attention` method
(`Attentive`); one that cannot has none, and is told apart by that alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

KINDS = ("encoder", "decoder", "cross")


@runtime_checkable
class Attentive(Protocol):
    @property
    def device(self) -> torch.device: ...

    def attention(self, source: Tensor, target: Tensor, kinds: Sequence[str]) -> Mapping[str, Sequence[Tensor]]:
        """kind -> one [B, H, Q, K] a layer, from one teacher-forced pass over target [B, T], the decoder's input."""
        ...


class SelectionError(ValueError):
    """A choice of kinds, layers or heads that the network does not have; `field` says which of the three."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class AttentionSlice:
    """weights [layers, heads, Q, K], float32, on the CPU; the numbers of these layers and heads, from 0."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    weights: Tensor


def resolve(chosen: Sequence[int] | None, count: int, noun: str) -> tuple[int, ...]:
    """Numbers 0..count-1 from a choice that may count from the end; None: all. SelectionError names the range."""
    if chosen is None:
        return tuple(range(count))
    if not chosen:
        raise SelectionError(f"Choose at least one {noun}, or leave the choice out for all {count}.", f"{noun}s")
    for number in chosen:
        if not -count <= number < count:
            message = f"There is no {noun} {number}: this model has {count} ({noun}s 0 to {count - 1})."
            raise SelectionError(message, f"{noun}s")
    return tuple(dict.fromkeys(number % count for number in chosen))


def attention_maps(
    network: Attentive,
    source: Sequence[int],
    target: Sequence[int],
    kinds: Sequence[str],
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> dict[str, AttentionSlice]:
    """The maps of one sentence. source: encoder input ids; target: decoder input ids, its start token first."""
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise SelectionError(f"There is no attention kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}.", "kinds")
    source_rows = torch.tensor([list(source)], dtype=torch.long, device=network.device)
    target_rows = torch.tensor([list(target)], dtype=torch.long, device=network.device)
    slices = {}
    for kind, maps in network.attention(source_rows, target_rows, kinds).items():
        chosen_layers = resolve(layers, len(maps), "layer")
        chosen_heads = resolve(heads, maps[0].size(1), "head")
        stacked = torch.stack([maps[layer][0, list(chosen_heads)] for layer in chosen_layers])
        slices[kind] = AttentionSlice(chosen_layers, chosen_heads, stacked.float().cpu())
    return slices
