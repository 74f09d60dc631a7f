"""Attention maps of one sentence. A network that can show its attention has an `attention` method (`Attentive`); one
that cannot has none, and is told apart by that alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from models.inspection.selection import known_kinds, resolve


@runtime_checkable
class Attentive(Protocol):
    @property
    def device(self) -> torch.device: ...

    def attention(self, source: Tensor, target: Tensor, kinds: Sequence[str]) -> Mapping[str, Sequence[Tensor]]:
        """kind -> one [B, H, Q, K] a layer, from one teacher-forced pass over target [B, T], the decoder's input."""
        ...


@dataclass(frozen=True, slots=True)
class AttentionSlice:
    """weights [layers, heads, Q, K], float32, on the CPU; the numbers of these layers and heads, from 0."""

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    weights: Tensor


def chosen_slice(
    maps: Sequence[Tensor], layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
) -> AttentionSlice:
    """Of maps [H, Q, K], one a layer. SelectionError if there is no such layer or head; None: all."""
    chosen_layers, chosen_heads = resolve(layers, len(maps), "layer"), resolve(heads, len(maps[0]), "head")
    stacked = torch.stack([maps[layer][list(chosen_heads)] for layer in chosen_layers])
    return AttentionSlice(chosen_layers, chosen_heads, stacked.float().cpu())


def attention_maps(
    network: Attentive,
    source: Sequence[int],
    target: Sequence[int],
    kinds: Sequence[str],
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> dict[str, AttentionSlice]:
    """The maps of one sentence. source: encoder input ids; target: decoder input ids, its start token first."""
    source_rows = torch.tensor([list(source)], dtype=torch.long, device=network.device)
    target_rows = torch.tensor([list(target)], dtype=torch.long, device=network.device)
    found = network.attention(source_rows, target_rows, known_kinds(kinds))
    return {kind: chosen_slice([layer[0] for layer in maps], layers, heads) for kind, maps in found.items()}
