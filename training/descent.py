"""One step of the optimizer: accumulated over batches, summed over processes, in any precision, clipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from training import optimizer as optimizers
from training.configuration.optimizer import OptimizerConfig
from training.precision import MixedPrecision
from training.task import Task
from training.workers import Workers


class Gradient(NamedTuple):
    """What is known of it; it lies in the network itself. loss []: summed over all tokens; norm []: of the gradient of
    their mean, before clipping."""

    loss: Tensor
    norm: Tensor
    tokens: int


class Descent:
    """precision: as in `LoopConfig`. workers: the processes that share `task`."""

    def __init__(
        self, task: Task, config: OptimizerConfig, precision: str, device: torch.device, workers: Workers
    ) -> None:
        self.task, self.config, self.device, self.workers = task, config, device, workers
        self.optimizer = optimizers.build(config, task.network)
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
        norm = optimizers.clip(self.task.network.parameters(), self.config.clip_norm, each)
        return Gradient(total, norm, tokens)

    def overflowed(self, gradient: Gradient) -> bool:
        """Whether it is to be thrown away; once for every gradient, see `MixedPrecision`."""
        return self.precision.overflowed(gradient.norm)

    def step(self, rate: float) -> None:
        """Down the gradient."""
        optimizers.apply_rate(self.optimizer, rate)
        self.optimizer.step()
