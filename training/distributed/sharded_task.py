"""Shards the rows of each batch over several processes.

A recipe's batch size is global: a run takes the same updates on one process and on eight, except for rounding and for
dropout, which differs by process. The rows of one batch have similar lengths, so the load is balanced, and all
processes have the same number of batches."""

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
    """`task` sharded over n processes: process r has rows r, r + n, r + 2n, ... of every batch."""

    def __init__(self, task: Task[Batch], workers: Workers, device: torch.device) -> None:
        self.task, self.workers, self.device = task, workers, device
        self.network, self.backend = task.network, backend_of(task)
        self.batches, self.validate, self.part = task.batches, task.validate, task.part
        self._parallel_loss: DistributedDataParallel | None = None

    def loss(self, batch: Batch) -> tuple[Tensor, int]:
        """The loss of this process's rows. Backward averages gradients over processes if `workers.synchronize`."""
        rank, count = self.workers.rank, self.workers.count
        part = self.task.part(batch, rank, count)
        # a process without rows computes rank 0's, uncounted, so that its peers do not wait
        computed = self.task.part(batch, 0, count) if part is None else part
        assert computed is not None
        self._parallel_loss = self._parallel_loss or self._wrap(computed)
        # must enclose the forward pass, where DDP decides whether the backward pass communicates
        with nullcontext() if self.workers.synchronize else self._parallel_loss.no_sync():
            mean, tokens = self._parallel_loss(computed)
        return mean, 0 if part is None else tokens

    def _wrap(self, batch: Batch) -> DistributedDataParallel:
        """Wraps the loss in DDP, which overlaps averaging with the backward pass. DDP's search for parameters without a
        gradient costs time in every step, and PyTorch warns if there are none; so one trial pass beforehand, without
        side effects, looks for such parameters."""
        random_before, carried_before = random_state(self.device), self.task.carried()
        parameters = [p for p in self.network.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(self.task.loss(batch)[0], parameters, allow_unused=True)
        restore_random_state([random_before], 0, self.device)
        self.task.restore(carried_before)
        with warnings.catch_warnings():
            # PyTorch 2.13 replaces it with an option to send buffers once, which 2.11 does not have
            warnings.filterwarnings("ignore", message=".broadcast_buffers. is deprecated", category=FutureWarning)
            return DistributedDataParallel(
                _LossModule(self.task),
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                find_unused_parameters=any(gradient is None for gradient in gradients),
            )

    def carried(self) -> dict[str, Tensor]:
        """State of all rows, in the order of the whole batch: a run can resume with any number of processes."""
        parts = self.workers.gather({name: value.cpu() for name, value in self.task.carried().items()})
        return {name: _interleave([part[name] for part in parts]) for name in parts[0]}

    def restore(self, carried: dict[str, Tensor]) -> None:
        rank, count = self.workers.rank, self.workers.count
        self.task.restore({name: value[:, rank::count].contiguous() for name, value in carried.items()})


class _LossModule(nn.Module, Generic[Batch]):
    """Wraps a task's loss as a module for DDP: a loss may run the network twice (R-Drop) and bypass its `forward`."""

    def __init__(self, task: Task[Batch]) -> None:
        super().__init__()
        self.network, self.task = task.network, task

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        return self.task.loss(batch)


def _interleave(parts: list[Tensor]) -> Tensor:
    """Interleaves tensors of rows r, r + n, r + 2n, ... in dimension 1, for r = 0..n-1."""
    whole = parts[0].new_empty(parts[0].shape[0], sum(part.shape[1] for part in parts), *parts[0].shape[2:])
    for rank, part in enumerate(parts):
        whole[:, rank :: len(parts)] = part
    return whole
