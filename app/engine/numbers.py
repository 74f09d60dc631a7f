"""A model that computes no numbers has nothing to show: said of it by name, and never written as null or as a level."""

from __future__ import annotations

import torch
from torch import Tensor

from app.engine.messages import plain_name


class NoNumbers(ArithmeticError):
    """A network gave NaN or infinity where a number was to be shown."""


def require_numbers(model: str, *shown: Tensor, logits: Tensor | None = None) -> None:
    """NoNumbers unless all that is `shown` is finite; a logit or a log-probability may be minus infinity."""
    sound = all(bool(torch.isfinite(each).all()) for each in shown)
    if not sound or (logits is not None and not bool((logits < torch.inf).all())):  # false of NaN too
        raise NoNumbers(
            f"{plain_name(model)} gives NaN or infinity, so its weights are broken; load a sound checkpoint of it"
        )
