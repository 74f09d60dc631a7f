"""The `Task` protocol of the trainer, the tasks of translators and lyricists, and tasks shared by processes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from models.networks.recurrent import RecurrentLanguageModel, RecurrentState
from models.networks.transformer import Transformer
from training.config.run_config import LyricsConfig, TranslatorConfig
from training.data.batches import (
    LazyBatches,
    PairBatch,
    TextBatch,
    batches_by_length,
    consecutive_windows,
    padded_pairs,
    random_windows,
)
from training.data.segmentation import PairIds
from training.data.stored_corpus import TokenArray, token_rows
from training.distributed.process_group import Workers, random_state, restore_random_state
from training.errors import TrainingError, pluralize
from training.evaluation.scores import IGNORED_TARGET, negative_log_likelihood, taught
from training.kernels.training_backend import LyricistBackend, TranslatorBackend, backend_of, to_device

LEAD_CHARACTERS = 512  # context that a validation lane reads before the characters that it counts
VALIDATION_LANES = 32

Batch = TypeVar("Batch")


class Task(Protocol[Batch]):
    """A network with its data and loss. Batches of an epoch depend on (seed, epoch) alone."""

    network: nn.Module

    def batches(self, epoch: int) -> Sequence[Batch]: ...

    def loss(self, batch: Batch) -> tuple[Tensor, int]:
        """The mean loss of a batch, and the number of tokens in it."""

    def validate(self) -> float | None:
        """Nats per held-out token; None without a held-out set."""

    def part(self, batch: Batch, rank: int, count: int) -> Batch | None:
        """Rows rank, rank + count, ... of a batch; None if there are none."""

    def carried(self) -> dict[str, Tensor]:
        """State carried from batch to batch beside the weights; dimension 1 indexes the batch's rows."""
        return {}

    def restore(self, carried: dict[str, Tensor]) -> None:
        return  # a stateless task


AnyTask: TypeAlias = Task[Any]  # for code that only passes batches on


class TranslationTask(Task[PairBatch]):
    """Label-smoothed cross-entropy of pairs of token ids: sources with end token, targets with start and end tokens.
    train: the pairs of every epoch, or a function that returns the pairs of epoch 0, 1, ... untaught: a token that is
    never a target, since it is never generated. parts: sizes of the language pairs of `valid`, one
    after the other; part_losses: their last losses, of which the validation loss is the mean."""

    network: Transformer

    def __init__(
        self,
        network: Transformer,
        train: PairIds | Callable[[int], PairIds],
        valid: PairIds | None,
        config: TranslatorConfig,
        untaught: int | None = None,
        parts: Sequence[int] = (),
    ) -> None:
        self.parts, self.part_losses = parts, list[float]()
        self.network, self.train, self.config = network, train, config
        self.valid = None if valid is None else (TokenArray.of(valid[0]), TokenArray.of(valid[1]))
        self.untaught = untaught
        self.pad = network.config.pad
        self.backend = TranslatorBackend(network)
        if config.loop.compile == "on" or (config.loop.compile == "auto" and network.device.type == "cuda"):
            self.backend.compile(2 * config.max_tokens)

    def batches(self, epoch: int) -> Sequence[PairBatch]:
        return self._batches(self.train(epoch) if callable(self.train) else self.train, epoch)

    def _batches(self, pairs: PairIds, epoch: int) -> Sequence[PairBatch]:
        sources, targets = map(token_rows, pairs)
        lengths = np.stack([sources.lengths, targets.lengths - 1], axis=1).astype(np.int32)
        groups = batches_by_length(lengths, self.config.tokens_per_batch, self.config.loop.seed, epoch)
        on_gpu = self.network.device.type == "cuda"

        def make(group: Sequence[int]) -> PairBatch:
            batch = padded_pairs(sources, targets, group, self.pad)
            if on_gpu:  # page-locked here, in the thread that makes batches; `outputs` stays on the host
                batch = batch._replace(source=batch.source.pin_memory(), inputs=batch.inputs.pin_memory())
            return batch

        return LazyBatches(groups, make)

    def loss(self, batch: PairBatch) -> tuple[Tensor, int]:
        """The mean over tokens that are not padding."""
        total, tokens = self._cross_entropy(batch, self.config.label_smoothing)
        return total / tokens, tokens

    def _cross_entropy(self, batch: PairBatch, smoothing: float) -> tuple[Tensor, int]:
        """Summed over tokens that are neither padding nor untaught; only these are projected onto the vocabulary."""
        real = batch.outputs != self.pad  # on the CPU, where counting needs no device synchronization
        if self.untaught is not None:
            real &= batch.outputs != self.untaught
        source, inputs, outputs = (
            to_device(part, self.network.device) for part in (batch.source, batch.inputs, batch.outputs[real])
        )
        features = self.backend.counted_features(source, inputs, real)
        return self.backend.cross_entropy(features, outputs, smoothing), len(outputs)

    def validate(self) -> float | None:
        if self.valid is None:
            return None
        if not self.parts:
            return self.mean_nats(self.valid)
        ends = list(accumulate(self.parts))
        parts = [range(end - size, end) for end, size in zip(ends, self.parts, strict=True)]
        self.part_losses = [self.mean_nats((self.valid[0].select(p), self.valid[1].select(p))) for p in parts]
        return sum(self.part_losses) / len(self.part_losses)

    def mean_nats(self, pairs: PairIds) -> float:
        """Per token that is not padding. The network must be in evaluation mode."""
        parts = [self._cross_entropy(batch, 0.0) for batch in self._batches(pairs, 0)]
        total = torch.stack([part for part, _ in parts]).sum().item()
        return total / sum(tokens for _, tokens in parts)

    def part(self, batch: PairBatch, rank: int, count: int) -> PairBatch | None:
        part = PairBatch(*(rows[rank::count] for rows in batch))
        return part if len(part.source) else None


class LyricsTask(Task[TextBatch]):
    """Cross-entropy per character over windows of one long text. train and valid: character ids [N]. untaught: the id
    of a token that is never generated, so that it is no target either."""

    network: RecurrentLanguageModel

    def __init__(
        self,
        network: RecurrentLanguageModel,
        train: Tensor,
        valid: Tensor | None,
        config: LyricsConfig,
        untaught: int | None = None,
    ) -> None:
        self.network, self.train, self.valid, self.config = network, train, valid, config
        self.untaught = untaught
        self.backend = LyricistBackend(network)
        self.state: RecurrentState | None = None

    def batches(self, epoch: int) -> list[TextBatch]:
        config = self.config
        generator = random.Random(config.loop.seed * 1_000_003 + epoch)
        if config.sampling != "consecutive":
            stride = 1 if config.sampling == "overlapping" else config.bptt
            return list(random_windows(self.train, config.batch_size, config.bptt, generator, stride))
        spare = len(self.train) - config.batch_size * (config.bptt + 1)  # beyond one window of every lane
        offset = generator.randrange(max(1, min(config.bptt, spare + 1))) if config.offset else 0
        return list(consecutive_windows(self.train, config.batch_size, config.bptt, offset))

    def loss(self, batch: TextBatch) -> tuple[Tensor, int]:
        device = self.network.device
        state = self.state if batch.carry else None
        logits, after = self.network(to_device(batch.inputs, device), state, self.backend.scan)
        self.state = RecurrentState(after.hidden.detach(), after.memory.detach())
        targets = taught(batch.outputs.flatten(), self.untaught)
        count = int((targets != IGNORED_TARGET).sum())  # on the CPU, where it needs no device synchronization
        if not count:
            return logits.sum() * 0.0, 1
        return F.cross_entropy(logits.flatten(0, 1).float(), to_device(targets, device)), count

    def validate(self) -> float | None:
        if self.valid is None or len(self.valid) < 2:
            return None
        lanes = max(1, min(VALIDATION_LANES, len(self.valid) // (4 * LEAD_CHARACTERS)))
        total, characters = negative_log_likelihood(
            self.network, self.valid, lanes, LEAD_CHARACTERS, untaught=self.untaught
        )
        return total / characters if characters else None

    def part(self, batch: TextBatch, rank: int, count: int) -> TextBatch:
        rows = len(batch.inputs)
        if rows < count:
            strands = pluralize(rows, "strand")
            raise TrainingError(f"{count} processes cannot share {strands} of text; start at most {rows}.")
        return TextBatch(batch.inputs[rank::count], batch.outputs[rank::count], batch.carry)

    def carried(self) -> dict[str, Tensor]:
        return {"hidden": self.state.hidden, "memory": self.state.memory} if self.state else {}

    def restore(self, carried: dict[str, Tensor]) -> None:
        if carried:
            device = self.network.device
            self.state = RecurrentState(carried["hidden"].to(device), carried["memory"].to(device))


class ShardedTask(Generic[Batch]):
    """`task` sharded over n processes: process r has rows r, r + n, r + 2n, ... of every batch.

    A recipe's batch size is global: a run takes the same updates on one process and on eight, except for rounding and
    for dropout, which differs by process. The rows of one batch have similar lengths, so the load is balanced, and all
    processes have the same number of batches."""

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
    """Wraps a task's loss as a module for DDP: a loss bypasses the network's `forward`."""

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
