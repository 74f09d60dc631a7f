"""Regularisers of training that PyTorch does not have: nothing of them is left when a network is served."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def dropped(features: Tensor, rate: float, *, locked: bool, training: bool) -> Tensor:
    """features [B, T, N]; locked: one mask for all T steps of a row (Gal and Ghahramani 2016)."""
    if not locked or not training or not rate:
        return F.dropout(features, rate, training)
    rows, _, width = features.shape
    mask = features.new_empty(rows, 1, width).bernoulli_(1 - rate)
    return features * mask.div_(1 - rate)
