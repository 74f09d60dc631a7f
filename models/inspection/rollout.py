"""Attention rollout (Abnar & Zuidema 2020, arXiv 2005.00928): attention through all layers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

METHOD = (
    "Attention rollout (Abnar & Zuidema 2020) over the mean of each layer's heads, with a residual share of 1/2. "
    "Encoder: E = A'_L ... A'_1 with A' = (A + I)/2. Decoder: D starts as [I | 0] over (decoder inputs | source) and "
    "becomes (D + A_self D)/2, then (D + A_cross [0 | E])/2, in each layer; cross is D's source part, each row divided "
    "by its sum, and that sum is source_share."
)
CAVEAT = (
    "Rollout follows attention and residual paths alone: it knows nothing of values, norms and feed-forward layers, "
    "and is no proof of what a prediction rests on."
)


@dataclass(frozen=True, slots=True)
class Rollout:
    """encoder [S, S] and cross [T, S], whose rows sum to 1; source_share [T]: how much of a row of the decoder comes
    from the source and not from its own inputs. float32."""

    encoder: Tensor
    cross: Tensor
    source_share: Tensor


def rollout(encoder: Sequence[Tensor], decoder: Sequence[Tensor], cross: Sequence[Tensor]) -> Rollout:
    """One map [H, Q, K] a layer of each kind, as of a forced pass. A row that looks nowhere keeps to itself."""
    source = encoder_rollout(encoder)
    inputs = decoder[0].size(-1)
    paths = torch.eye(inputs, inputs + len(source), dtype=torch.float64)
    behind = torch.cat([source.new_zeros(len(source), inputs), source], dim=1)
    for own, other in zip(decoder, cross, strict=True):
        paths = halved(paths, own.double().mean(dim=0) @ paths)
        paths = halved(paths, other.double().mean(dim=0) @ behind)
    from_source = paths[:, inputs:]
    share = from_source.sum(dim=-1)
    rows = from_source / share.clamp(min=torch.finfo(share.dtype).tiny)[:, None]
    return Rollout(source.float(), rows.float(), share.float())


def encoder_rollout(maps: Sequence[Tensor]) -> Tensor:
    """Maps [H, S, S], first layer first -> [S, S], float64."""
    paths = torch.eye(maps[0].size(-1), dtype=torch.float64)
    for weights in maps:
        paths = halved(paths, weights.double().mean(dim=0) @ paths)
    return paths


def halved(before: Tensor, attended: Tensor) -> Tensor:
    """Half of what was there and half of what was attended to, rows summing to 1."""
    both = before + attended
    return both / both.sum(dim=-1, keepdim=True)
