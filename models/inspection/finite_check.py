"""A check that a network computed numbers: NaN and infinity are never shown as null or as a level."""

from __future__ import annotations

import torch
from torch import Tensor


class NonFiniteOutput(ArithmeticError):
    """A network gave NaN or infinity where a number was to be shown."""


def require_finite(*shown: Tensor, logits: Tensor | None = None) -> None:
    """NonFiniteOutput unless all that is `shown` is finite; a logit or a log-probability may be minus infinity."""
    sound = all(bool(torch.isfinite(values).all()) for values in shown)
    if not sound or (logits is not None and not bool((logits < torch.inf).all())):  # false of NaN too
        raise NonFiniteOutput("gives NaN or infinity, so its weights are broken; load a sound checkpoint of it")
