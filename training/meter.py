"""What updates measured, read from the device only now and then: reading makes the host wait for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from training.errors import TrainingError

WAY_OUT = "lower the learning rate, warm up longer or clip more tightly, and start anew"


@dataclass(slots=True)
class Reading:
    """Of one update. loss []: summed over its tokens; norm []: of the gradient of their mean, before clipping."""

    update: int
    epoch: int
    loss: Tensor
    norm: Tensor
    tokens: int
    rate: float
    fraction: float  # of the run, for the progress bar


class Meter:
    """eager: nothing need be waited for (on a CPU)."""

    def __init__(self, *, eager: bool) -> None:
        self.eager = eager
        self._waiting: list[Reading] = []

    def add(self, reading: Reading) -> None:
        """Before the weights follow the gradient: an eager meter finds what is no number in time to spare them, any
        other by the next time it is read, which is before the next snapshot."""
        if self.eager:
            _check(reading, reading.loss.item(), reading.norm.item())
        self._waiting.append(reading)

    def read(self) -> list[tuple[Reading, float]]:
        """Every update since the last time with its summed loss. TrainingError at the first that had none."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        losses = torch.stack([r.loss for r in waiting]).tolist()
        norms = torch.stack([r.norm for r in waiting]).tolist()
        for reading, loss, norm in zip(waiting, losses, norms, strict=True):
            _check(reading, loss, norm)
        return list(zip(waiting, losses, strict=True))


def _check(reading: Reading, loss: float, norm: float) -> None:
    for what, value in (("loss", loss), ("gradient", norm)):
        if not math.isfinite(value):
            raise TrainingError(
                f"The {what} became {value} at update {reading.update}: {WAY_OUT} (the rate was {reading.rate:.2g})."
            )


@torch.no_grad()
def all_finite(tensors: list[Tensor]) -> bool:
    norms = torch._foreach_norm([t for t in tensors if t.is_floating_point()])
    return not norms or bool(torch.stack(norms).isfinite().all())
