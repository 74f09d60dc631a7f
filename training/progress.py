"""The state of a run, its validation results, and its outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

TIE = 1e-6  # BLEU points: scores this near are equal
Sample = tuple[str, str, str]
"""Source, reference, and what the network wrote. A lyricist's reference is ""."""


ScoresByPair = Mapping[str, Mapping[str, float]]
"""Language pair -> "loss" and "bleu" -> value."""


Closing = Callable[[float], float]
"""Estimates the seconds of all that follows the last update from those of a validation; network in evaluation mode."""


class Validation(NamedTuple):
    """A validation result. loss: nats per held-out token. bleu: of greedy translations, None unless weights are chosen
    by it. samples: of generated texts. by_pair: of a multilingual translator, whose loss and BLEU are the means over
    its language pairs."""

    loss: float
    bleu: float | None = None
    samples: tuple[Sample, ...] = ()
    by_pair: ScoresByPair | None = None

    def cost(self, choose_by: str) -> float:
        """The value to minimize; nan without a validation result to choose by."""
        if choose_by == "loss":
            return self.loss
        if self.bleu is None:
            return math.nan
        return -self.bleu - TIE * math.expm1(-self.loss)  # of equal BLEU the lower loss wins

    def __str__(self) -> str:
        bleu = "" if self.bleu is None else f" and BLEU {self.bleu:.2f}"
        return f"held-out loss {self.loss:.4f} nats{bleu}"


Validator = Callable[[float], Validation]
"""What is measured beside a loss that has been measured."""


@dataclass(slots=True)
class Progress:
    """The counters of a run; saved in every snapshot."""

    epoch: int = 0  # finished epochs
    batch: int = 0  # finished batches of the running epoch
    update: int = 0
    skipped: int = 0  # batches with gradients that overflowed fp16: no updates
    seconds: float = 0.0
    validated: int = -1  # the last validated update
    validations: int = 0
    validated_at_s: float = 0.0  # when the last validation ended
    validation_s: float = 0.0  # how long it took
    clock_validation: int = -1  # the update at which the clock asks for a validation
    best_loss: float = math.inf  # of the best validation, by the measure that chooses
    best_bleu: float | None = None
    best_update: int = 0
    without_gain: int = 0  # validations since the best one
    least_loss: float = math.inf  # of all validations
    rising: int = 0  # validations in a row with a loss that rises (`Trainer._watch_loss`)
    loss_since: float = 0.0  # summed over the tokens of training since the last validation
    tokens_since: int = 0
    cooling: bool = False  # patience has run out, and the learning rate decays
    epoch_loss: float = 0.0  # summed over the running epoch's tokens
    epoch_tokens: int = 0
    last_epoch_loss: float = math.nan  # mean training loss of the last whole epoch


@dataclass(slots=True)
class Outcome:
    """The weights to keep, and how they were obtained."""

    weights: dict[str, Tensor]
    progress: Progress
    ended_by: str
    epoch_losses: list[float] = field(default_factory=list)  # mean training loss of each epoch of this session
    chosen: str = "the last weights"
    validation: Validation | None = None  # of the chosen weights
    backend: str = ""  # the kernels that computed the updates, and why
