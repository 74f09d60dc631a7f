"""Attention maps: selection of layers and heads, statistics per head, and rollout through all layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.inspection.results import AttentionMap, HeadStatistics, Rollout, head_role
from models.inspection.selection import AttentionSelection, resolve


def reduced_map(maps: Sequence[Tensor], selection: AttentionSelection) -> AttentionMap:
    """Selects from maps [H, Q, K], one per layer; a reduced dimension is 1. SelectionError for an unknown number."""
    layers = resolve(selection.layers, len(maps), "layer")
    heads = resolve(selection.heads, len(maps[0]), "head")
    weights = torch.stack([maps[layer][list(heads)] for layer in layers])
    if selection.reduce_heads == "mean":
        weights = weights.double().mean(dim=1, keepdim=True)
    elif selection.reduce_heads == "max":
        weights = weights.amax(dim=1, keepdim=True)
    if selection.reduce_layers == "mean":
        weights = weights.double().mean(dim=0, keepdim=True)
    numbers = weights.float().contiguous().numpy()
    return AttentionMap(layers, heads, numbers.shape, numbers.tobytes())


def head_statistics(
    weights: Tensor, valid: Tensor, *, cross: bool, starts: Sequence[int] = (), ends: Sequence[int] = ()
) -> list[HeadStatistics]:
    """weights [H, Q, K] of one layer -> statistics per head. valid [Q, K]: True where a query may attend. cross: the
    keys belong to another sentence. starts, ends: the keys that are start and end tokens.

    Means over the rows that may attend to any key; positions count readable tokens only. entropy_norm: entropy /
    ln(number of readable keys), without rows of a single key; 0 if there are only such rows. confidence: the largest
    weight (Voita et al. 2019, arXiv 1905.09418). diag, prev, next: on the row's own position, the one before and the
    one after, over rows that have them; across, the own position of row q of Q is key floor((2q+1)·K / 2Q) of the K
    readable ones, as if source and target were stretched to equal length. argmax_coverage: of the readable keys."""
    rows, keys = valid.any(dim=-1), valid.any(dim=0)
    if not cross:
        rows = rows & keys  # padding positions are no queries either
    kept, seen = weights[:, rows].double(), valid[rows][:, keys]
    if not len(seen):
        return [HeadStatistics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "mixed")] * len(weights)
    masses = {name: kept[:, :, list(places)].sum(-1).mean(-1) for name, places in (("bos", starts), ("eos", ends))}
    kept = kept[:, :, keys]
    order = torch.arange(len(seen))
    places = (2 * order + 1) * seen.size(1) // (2 * len(seen))  # own keys; the identity if Q = K
    entropy, counts = torch.special.entr(kept).sum(dim=-1), seen.sum(dim=-1)
    several = counts > 1
    largest = torch.zeros_like(kept).scatter_(2, kept.argmax(dim=-1, keepdim=True), 1.0).amax(dim=1)
    columns = {
        "entropy_mean": entropy.mean(dim=-1),
        "entropy_norm": mean_over_rows(entropy[:, several] / counts[several].log()),
        "confidence": kept.amax(dim=-1).mean(dim=-1),
        "mass_bos": masses["bos"],
        "mass_eos": masses["eos"],
        "prev": mass_at_keys(kept, seen, places - 1),
        "diag": mass_at_keys(kept, seen, places),
        "next": mass_at_keys(kept, seen, places + 1),
        "argmax_coverage": largest.mean(dim=-1),
    }
    each = [dict(zip(columns, head, strict=True)) for head in torch.stack(list(columns.values()), dim=1).tolist()]
    return [HeadStatistics(**values, role=head_role(values)) for values in each]


def mass_at_keys(kept: Tensor, seen: Tensor, places: Tensor) -> Tensor:
    """Mean weight [H] at key places[q] of each query q, over the queries that may attend to it."""
    there = (places >= 0) & (places < seen.size(1))
    index = places.clamp(0, seen.size(1) - 1)[:, None]
    there &= seen.gather(1, index)[:, 0]
    return mean_over_rows(kept.gather(2, index.expand(len(kept), -1, -1))[:, there, 0])


def mean_over_rows(values: Tensor) -> Tensor:
    """[H, n] -> [H]; 0 for n = 0."""
    return values.mean(dim=-1) if values.size(1) else values.new_zeros(len(values))


ROLLOUT_METHOD = (
    "Attention rollout (Abnar & Zuidema 2020) over the mean of each layer's heads, with a residual share of 1/2. "
    "Encoder: E = A'_L ... A'_1 with A' = (A + I)/2. Decoder: D starts as [I | 0] over (decoder inputs | source) and "
    "becomes (D + A_self D)/2, then (D + A_cross [0 | E])/2, in each layer; cross is D's source part, each row divided "
    "by its sum, and that sum is source_share."
)
ROLLOUT_CAVEAT = (
    "Rollout follows attention and residual paths alone: it knows nothing of values, norms and feed-forward layers, "
    "and is no proof of what a prediction rests on."
)


def rollout(encoder: Sequence[Tensor], decoder: Sequence[Tensor], cross: Sequence[Tensor]) -> Rollout:
    """Rollout over maps [H, Q, K] of a forced pass, one per layer and kind. Rows without attention stay themselves."""
    source = torch.eye(encoder[0].size(-1), dtype=torch.float64)
    for own in encoder:
        source = with_residual(source, own.double().mean(dim=0) @ source)
    inputs = decoder[0].size(-1)
    paths = torch.eye(inputs, inputs + len(source), dtype=torch.float64)
    behind = torch.cat([source.new_zeros(len(source), inputs), source], dim=1)
    for own, other in zip(decoder, cross, strict=True):
        paths = with_residual(paths, own.double().mean(dim=0) @ paths)
        paths = with_residual(paths, other.double().mean(dim=0) @ behind)
    from_source = paths[:, inputs:]
    share = from_source.sum(dim=-1)
    rows = from_source / share.clamp(min=torch.finfo(share.dtype).tiny)[:, None]
    encoder_rows, cross_rows, shares = (numbers.float().tolist() for numbers in (source, rows, share))
    return Rollout(encoder_rows, cross_rows, shares, ROLLOUT_METHOD, ROLLOUT_CAVEAT)


def with_residual(before: Tensor, attended: Tensor) -> Tensor:
    """The mean of both, with rows normalised to 1."""
    both = before + attended
    return both / both.sum(dim=-1, keepdim=True)
