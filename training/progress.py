"""Where a run stands, and how it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from training.validation import Validation


@dataclass(slots=True)
class Progress:
    """Where a run stands; saved in every snapshot."""

    epoch: int = 0  # finished ones
    batch: int = 0  # finished in the running epoch
    update: int = 0
    skipped: int = 0  # whose gradients overflowed fp16: no updates
    seconds: float = 0.0
    validated: int = -1  # the last update that was
    best_loss: float = math.inf  # of the best validation, by whatever measure chooses
    best_bleu: float | None = None
    best_update: int = 0
    without_gain: int = 0
    cooling: bool = False  # patience has ended, and the rate falls
    epoch_loss: float = 0.0  # sums over the running epoch
    epoch_tokens: int = 0
    last_epoch_loss: float = math.nan  # mean training loss of the last whole epoch


@dataclass(slots=True)
class Outcome:
    """The weights to keep, and how they came about."""

    weights: dict[str, Tensor]
    progress: Progress
    ended_by: str
    epoch_losses: list[float] = field(default_factory=list)  # mean training loss of each epoch of this session
    chosen: str = "the last weights"
    validation: Validation | None = None  # of the chosen weights
