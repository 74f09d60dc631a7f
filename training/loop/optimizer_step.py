"""One step of the optimizer: accumulated over batches, summed over processes, clipped, and measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from training.config.run_config import OptimizerConfig
from training.distributed.process_group import Workers
from training.errors import TrainingError
from training.kernels.training_backend import kernels_of
from training.loop.mixed_precision import MixedPrecision
from training.loop.optimizers import build_optimizer, clip_gradients, set_learning_rate
from training.loop.tasks import Batch, Task

DIVERGENCE_ADVICE = "lower the learning rate, warm up longer or clip more tightly, and start anew"


class Gradient(NamedTuple):
    """Of the network's parameters, in their `grad`. loss []: summed over all tokens; norm []: of the gradient of the
    mean loss, before clipping."""

    loss: Tensor
    norm: Tensor
    tokens: int


class OptimizerStep(Generic[Batch]):
    """precision: as in `LoopConfig`. workers: the processes that share `task`."""

    def __init__(
        self, task: Task[Batch], config: OptimizerConfig, precision: str, device: torch.device, workers: Workers
    ) -> None:
        self.task, self.config, self.device, self.workers = task, config, device, workers
        self.optimizer = build_optimizer(config, task.network)
        self.precision = MixedPrecision(device, precision, task.network, kernels_of(task))

    def gradient(self, batches: Sequence[Batch]) -> Gradient:
        """Of the mean loss over all tokens of the batches, clipped."""
        self.task.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        total, tokens = torch.zeros((), device=self.device), 0
        for index, batch in enumerate(batches):
            self.workers.synchronize = index == len(batches) - 1
            with self.precision.autocast():
                loss, count = self.task.loss(batch)
            self.precision.backward(loss * count)
            total, tokens = total + loss.detach() * count, tokens + count
        self.precision.unscale(self.optimizer)
        total, tokens = self.workers.sum_tensor(total), round(self.workers.sum_numbers([tokens])[0])
        # DDP has divided the summed gradients by the number of processes already
        norm = clip_gradients(self.task.network.parameters(), self.config.clip_norm, tokens / self.workers.count)
        return Gradient(total, norm, tokens)

    def overflowed(self, gradient: Gradient) -> bool:
        """Whether the gradient is to be thrown away; to be called once for every gradient, see `MixedPrecision`."""
        return self.precision.overflowed(gradient.norm)

    def apply(self, learning_rate: float) -> None:
        """Move the weights down the gradient."""
        set_learning_rate(self.optimizer, learning_rate)
        self.optimizer.step()


class StepMeasurement(NamedTuple):
    """Of one update. fraction: of the run that is over, for the progress bar."""

    update: int
    epoch: int
    gradient: Gradient
    learning_rate: float
    fraction: float


class StepMeter:
    """What updates measured, read from the device only now and then, because reading makes the host wait for it.
    eager: read at once, where nothing need be waited for (on a CPU)."""

    def __init__(self, *, eager: bool) -> None:
        self.eager = eager
        self._unread: list[StepMeasurement] = []

    def add(self, measurement: StepMeasurement) -> None:
        """Before the weights follow the gradient: an eager meter finds a nan in time to spare them, any other by its
        next reading, which is before the next snapshot."""
        if self.eager:
            _check_finite(measurement, measurement.gradient.loss.item(), measurement.gradient.norm.item())
        self._unread.append(measurement)

    def read(self) -> list[tuple[StepMeasurement, float]]:
        """Every update since the last reading with its summed loss. TrainingError at the first that is not finite."""
        unread, self._unread = self._unread, []
        if not unread:
            return []
        losses = torch.stack([m.gradient.loss for m in unread]).tolist()
        norms = torch.stack([m.gradient.norm for m in unread]).tolist()
        for measurement, loss, norm in zip(unread, losses, norms, strict=True):
            _check_finite(measurement, loss, norm)
        return list(zip(unread, losses, strict=True))


def _check_finite(measurement: StepMeasurement, loss: float, norm: float) -> None:
    for what, value in (("loss", loss), ("gradient", norm)):
        if not math.isfinite(value):
            raise TrainingError(
                f"The {what} became {value} at update {measurement.update}: {DIVERGENCE_ADVICE} (the rate was"
                f" {measurement.learning_rate:.2g})."
            )


@torch.no_grad()
def all_finite(tensors: list[Tensor]) -> bool:
    norms = torch._foreach_norm([t for t in tensors if t.is_floating_point()])
    return not norms or bool(torch.stack(norms).isfinite().all())
