"""What each head does, from its maps; `models.inspection.roles` says what the numbers are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.inspection.roles import HeadStatistics, role


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
