"""A task whose batches several processes share, each computing some rows of every batch.

A recipe's batch is that of all processes together: a run takes the same updates on one process and on eight, but
for rounding and for dropout, which every process draws for itself. The rows of one batch are of like length, so the
processes finish their rows at about the same time, and none of them runs out of batches before the others.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Generic

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from training.distributed.process_group import Workers, random_state, restore_random_state
from training.kernels.training_backend import backend_of
from training.loop.tasks import Batch, Task


class ShardedTask(Generic[Batch]):
    """`task` as one of n processes sees it: process r has rows r, r + n, r + 2n, ... of every batch."""

    def __init__(self, task: Task[Batch], workers: Workers, device: torch.device) -> None:
        self.task, self.workers, self.device = task, workers, device
        self.network, self.backend = task.network, backend_of(task)
        self.batches, self.validate, self.part = task.batches, task.validate, task.part
        self._parallel_loss: DistributedDataParallel | None = None

    def loss(self, batch: Batch) -> tuple[Tensor, int]:
        """Of this process's rows. A backward pass leaves the mean of all processes' gradients on each of them, or
        where `workers.synchronize` is off, adds its own to what is there."""
        rank, count = self.workers.rank, self.workers.count
        part = self.task.part(batch, rank, count)
        # a process without rows computes rank 0's, uncounted, so that no peer waits for it
        computed = self.task.part(batch, 0, count) if part is None else part
        assert computed is not None
        self._parallel_loss = self._parallel_loss or self._wrap(computed)
        # around the forward pass, in which DDP decides whether the backward pass will send anything
        with nullcontext() if self.workers.synchronize else self._parallel_loss.no_sync():
            mean, tokens = self._parallel_loss(computed)
        return mean, 0 if part is None else tokens

    def _wrap(self, batch: Batch) -> DistributedDataParallel:
        """The loss whose gradients are averaged over the processes while the rest of them is still computed.

        Looking for parameters without a gradient takes time in every step, and PyTorch warns where it finds none; so
        one pass beforehand, which leaves no trace, shows whether there are any.
        """
        random_before, carried_before = random_state(self.device), self.task.carried()
        parameters = [p for p in self.network.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(self.task.loss(batch)[0], parameters, allow_unused=True)
        restore_random_state([random_before], 0, self.device)
        self.task.restore(carried_before)
        with warnings.catch_warnings():
            # its successor, of PyTorch 2.13, would send the buffers once; 2.11 does not know it
            warnings.filterwarnings("ignore", message=".broadcast_buffers. is deprecated", category=FutureWarning)
            return DistributedDataParallel(
                _LossModule(self.task),
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                find_unused_parameters=any(gradient is None for gradient in gradients),
            )

    def carried(self) -> dict[str, Tensor]:
        """Of all rows, in the order of the whole batch: a run can go on with any number of processes."""
        parts = self.workers.gather({name: value.cpu() for name, value in self.task.carried().items()})
        return {name: _interleave([part[name] for part in parts]) for name in parts[0]}

    def restore(self, carried: dict[str, Tensor]) -> None:
        rank, count = self.workers.rank, self.workers.count
        self.task.restore({name: value[:, rank::count].contiguous() for name, value in carried.items()})


class _LossModule(nn.Module, Generic[Batch]):
    """A task's loss as the module whose gradients are shared: not the network, because a loss may go through the
    network twice (R-Drop) and past its `forward`."""

    def __init__(self, task: Task[Batch]) -> None:
        super().__init__()
        self.network, self.task = task.network, task

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        return self.task.loss(batch)


def _interleave(parts: list[Tensor]) -> Tensor:
    """Tensors of rows r, r + n, r + 2n, ... in dimension 1, for r = 0..n-1, as one."""
    whole = parts[0].new_empty(parts[0].shape[0], sum(part.shape[1] for part in parts), *parts[0].shape[2:])
    for rank, part in enumerate(parts):
        whole[:, rank :: len(parts)] = part
    return whole
