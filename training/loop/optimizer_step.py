"""One step of the optimizer: accumulated over batches, summed over processes, clipped, and measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from training.config.run_config import OptimizerConfig
from training.distributed.process_group import Workers
from training.errors import TrainingError
from training.loop import optimizers
from training.loop.mixed_precision import MixedPrecision
from training.loop.tasks import Task

DIVERGENCE_ADVICE = "lower the learning rate, warm up longer or clip more tightly, and start anew"


@dataclass(slots=True)
class StepMeasurement:
    """Of one update. loss []: summed over its tokens; norm []: of the gradient of their mean, before clipping."""

    update: int
    epoch: int
    loss: Tensor
    norm: Tensor
    tokens: int
    rate: float
    fraction: float  # of the run, for the progress bar


class StepMeter:
    """eager: nothing need be waited for (on a CPU)."""

    def __init__(self, *, eager: bool) -> None:
        self.eager = eager
        self._waiting: list[StepMeasurement] = []

    def add(self, reading: StepMeasurement) -> None:
        """Before the weights follow the gradient: an eager meter finds what is no number in time to spare them, any
        other by the next time it is read, which is before the next snapshot."""
        if self.eager:
            _check_finite(reading, reading.loss.item(), reading.norm.item())
        self._waiting.append(reading)

    def read(self) -> list[tuple[StepMeasurement, float]]:
        """Every update since the last time with its summed loss. TrainingError at the first that had none."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        losses = torch.stack([r.loss for r in waiting]).tolist()
        norms = torch.stack([r.norm for r in waiting]).tolist()
        for reading, loss, norm in zip(waiting, losses, norms, strict=True):
            _check_finite(reading, loss, norm)
        return list(zip(waiting, losses, strict=True))


def _check_finite(reading: StepMeasurement, loss: float, norm: float) -> None:
    for what, value in (("loss", loss), ("gradient", norm)):
        if not math.isfinite(value):
            raise TrainingError(
                f"The {what} became {value} at update {reading.update}: {DIVERGENCE_ADVICE}"
                f" (the rate was {reading.rate:.2g})."
            )


@torch.no_grad()
def all_finite(tensors: list[Tensor]) -> bool:
    norms = torch._foreach_norm([t for t in tensors if t.is_floating_point()])
    return not norms or bool(torch.stack(norms).isfinite().all())


class Gradient(NamedTuple):
    """What is known of it; it lies in the network itself. loss []: summed over all tokens; norm []: of the gradient of
    their mean, before clipping."""

    loss: Tensor
    norm: Tensor
    tokens: int


class OptimizerStep:
    """precision: as in `LoopConfig`. workers: the processes that share `task`."""

    def __init__(
        self, task: Task, config: OptimizerConfig, precision: str, device: torch.device, workers: Workers
    ) -> None:
        self.task, self.config, self.device, self.workers = task, config, device, workers
        self.optimizer = optimizers.build_optimizer(config, task.network)
        self.precision = MixedPrecision(device, precision, task.network)

    def gradient(self, group: Sequence[Any]) -> Gradient:
        """Of the mean loss over all tokens of the group's batches, clipped."""
        self.task.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        total, tokens = torch.zeros((), device=self.device), 0
        for place, batch in enumerate(group):
            self.workers.together = place == len(group) - 1
            with self.precision.autocast():
                loss, count = self.task.loss(batch)
            self.precision.backward(loss * count)
            total, tokens = total + loss.detach() * count, tokens + count
        self.precision.unscale(self.optimizer)
        total, tokens = self.workers.total(total), round(self.workers.sum([tokens])[0])
        # gradients are averaged over the processes
        each = tokens / self.workers.count
        norm = optimizers.clip_gradients(self.task.network.parameters(), self.config.clip_norm, each)
        return Gradient(total, norm, tokens)

    def overflowed(self, gradient: Gradient) -> bool:
        """Whether it is to be thrown away; once for every gradient, see `MixedPrecision`."""
        return self.precision.overflowed(gradient.norm)

    def step(self, rate: float) -> None:
        """Down the gradient."""
        optimizers.set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
