"""Tokens that are never chosen: what that does to the probabilities of the others."""

from __future__ import annotations

import torch
from torch import Tensor

from models.likeliest import largest, log_total

MOST_TAKEN = 1 - 2**-24  # of the probability, by suppressed tokens: float32 leaves the others no less


def suppress(logits: Tensor, suppressed: Tensor, *, renormalise: bool) -> Tensor | None:
    """Written into the logits [B, V]: those of the ids `suppressed` become -inf. Without renormalising these keep their
    share, and the answer is what the log-probabilities of the others then are too large by, [B], float64."""
    if renormalise:
        logits.index_fill_(1, suppressed, -torch.inf)
        return None
    whole = log_total(logits, largest(logits), keep=True)
    taken = logits[:, suppressed].sub_(whole[:, None]).double().exp_().sum(dim=-1)
    logits.index_fill_(1, suppressed, -torch.inf)
    return -taken.clamp_(max=MOST_TAKEN).neg_().log1p_()
