"""What each head does, in numbers and in a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

MOST = 0.5  # of the mass at one kind of place, and the head is named for it
BROAD = 0.9  # of the largest possible entropy
FOCUSED = 0.8  # the mean of the largest weight of each row
PLACES = {
    "diag": "diagonal",
    "prev": "previous",
    "next": "next",
    "mass_eos": "end of sentence",
    "mass_bos": "start of sentence",
}


class HeadStatistics(NamedTuple):
    """Means over the rows that may look somewhere; places are counted among the tokens that may be read.

    entropy_mean: nats. entropy_norm: entropy / ln(keys that the row may look at), 0..1; a row of one key has nothing to
    spread over and is left out; 0 if all are such. confidence: the largest weight (Voita et al. 2019,
    arXiv 1905.09418). mass_bos, mass_eos: on start and end tokens. diag, prev, next: on the row's own place, the one
    before and the one behind, over the rows that have them; in cross-attention the own place of row q of Q is key
    floor((2q+1)·K / 2Q) of the K readable ones: the one that the middle of the row falls into when source and target
    are drawn equally long. argmax_coverage: the share of readable keys that are some row's largest.
    role: "broad" from entropy_norm 0.9; otherwise the kind of place that holds at least half of the mass, the fullest
    if there are several ("diagonal", "previous", "next", "end of sentence", "start of sentence"); otherwise "focused"
    from confidence 0.8, or "mixed".
    """

    entropy_mean: float
    entropy_norm: float
    confidence: float
    mass_bos: float
    mass_eos: float
    prev: float
    diag: float
    next: float
    argmax_coverage: float
    role: str


def head_statistics(
    weights: Tensor, valid: Tensor, *, cross: bool, starts: Sequence[int] = (), ends: Sequence[int] = ()
) -> list[HeadStatistics]:
    """weights [H, Q, K] of one layer, one for each head; valid [Q, K]: where a row may look. cross: keys are another
    sentence's. starts, ends: the keys that are start and end tokens."""
    rows, keys = valid.any(dim=-1), valid.any(dim=0)
    if not cross:
        rows = rows & keys  # what nobody reads asks nothing that counts
    kept, seen = weights[:, rows].double(), valid[rows][:, keys]
    if not len(seen):
        return [HeadStatistics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "mixed")] * len(weights)
    masses = {name: kept[:, :, list(places)].sum(-1).mean(-1) for name, places in (("bos", starts), ("eos", ends))}
    kept = kept[:, :, keys]
    order = torch.arange(len(seen))
    places = (2 * order + 1) * seen.size(1) // (2 * len(seen))  # their own: of as many keys as rows the same numbers
    entropy, counts = torch.special.entr(kept).sum(dim=-1), seen.sum(dim=-1)
    several = counts > 1
    largest = torch.zeros_like(kept).scatter_(2, kept.argmax(dim=-1, keepdim=True), 1.0).amax(dim=1)
    columns = {
        "entropy_mean": entropy.mean(dim=-1),
        "entropy_norm": mean(entropy[:, several] / counts[several].log()),
        "confidence": kept.amax(dim=-1).mean(dim=-1),
        "mass_bos": masses["bos"],
        "mass_eos": masses["eos"],
        "prev": mass_at(kept, seen, places - 1),
        "diag": mass_at(kept, seen, places),
        "next": mass_at(kept, seen, places + 1),
        "argmax_coverage": largest.mean(dim=-1),
    }
    each = [dict(zip(columns, head, strict=True)) for head in torch.stack(list(columns.values()), dim=1).tolist()]
    return [HeadStatistics(**values, role=role(values)) for values in each]


def mass_at(kept: Tensor, seen: Tensor, places: Tensor) -> Tensor:
    """The mean weight [H] at these keys [Q], over the rows that may look at theirs."""
    there = (places >= 0) & (places < seen.size(1))
    index = places.clamp(0, seen.size(1) - 1)[:, None]
    there &= seen.gather(1, index)[:, 0]
    return mean(kept.gather(2, index.expand(len(kept), -1, -1))[:, there, 0])


def mean(values: Tensor) -> Tensor:
    """[H, n] -> [H]; of nothing: 0."""
    return values.mean(dim=-1) if values.size(1) else values.new_zeros(len(values))


def role(values: dict[str, float]) -> str:
    """By the thresholds above."""
    fullest = max(PLACES, key=lambda place: values[place])
    if values["entropy_norm"] >= BROAD:  # first: of two keys each has half of the mass, whoever looks
        return "broad"
    if values[fullest] >= MOST:
        return PLACES[fullest]
    return "focused" if values["confidence"] >= FOCUSED else "mixed"
