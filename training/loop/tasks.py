"""The `Task` protocol of the trainer, and the tasks of translators and lyricists."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
from training.data.segmentation import PairIds, SpecialIds
from training.data.token_array import TokenArray, token_rows
from training.errors import TrainingError, pluralize
from training.evaluation.scores import negative_log_likelihood
from training.kernels.training_backend import LyricistBackend, TranslatorBackend, to_device

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


OWN_IDS = SpecialIds()


def drop_words(ids: Tensor, share: float, special: SpecialIds = OWN_IDS) -> Tensor:
    """Replaces `share` of the words in ids [B, T] by the unknown token; special tokens stay. Draws from PyTorch's
    global generator, like dropout, so that a snapshot holds its state."""
    if not share or special.unknown is None:
        return ids
    dropped = torch.rand(ids.shape, device=ids.device) < share
    spared = torch.isin(ids, torch.tensor(special.spared, device=ids.device))
    return ids.masked_fill(dropped & ~spared, special.unknown)


class TranslationTask(Task[PairBatch]):
    """Label-smoothed cross-entropy of pairs of token ids: sources with end token, targets with start and end tokens.
    train: the pairs of every epoch, or a function that returns the pairs of epoch 0, 1, ... special: of the source and
    of the target. parts: sizes of the language pairs of `valid`, one behind the other; part_losses: their last losses,
    of which the validation loss is the mean."""

    network: Transformer

    def __init__(
        self,
        network: Transformer,
        train: PairIds | Callable[[int], PairIds],
        valid: PairIds | None,
        config: TranslatorConfig,
        special: tuple[SpecialIds, SpecialIds] = (OWN_IDS, OWN_IDS),
        parts: Sequence[int] = (),
    ) -> None:
        self.parts, self.part_losses = parts, list[float]()
        self.network, self.train, self.config = network, train, config
        self.valid = None if valid is None else (TokenArray.of(valid[0]), TokenArray.of(valid[1]))
        self.special = special
        self.r_drop = config.r_drop  # of the running epoch
        self.pad = network.config.pad
        self.backend = TranslatorBackend(network)
        if config.loop.compile == "on" or (config.loop.compile == "auto" and network.device.type == "cuda"):
            self.backend.compile(2 * config.max_tokens)

    def batches(self, epoch: int) -> Sequence[PairBatch]:
        self.r_drop = self.config.r_drop if epoch >= self.config.r_drop_after_epochs else 0.0
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
        """The mean over tokens that are not padding. With R-Drop each pair runs twice, and alpha/4 times the symmetric
        KL divergence of the two predictions is added (Liang et al. 2021, equation 4, divided by 2)."""
        config, r_drop = self.config, self.r_drop
        if r_drop:
            batch = PairBatch(*(torch.cat([part, part]) for part in batch))
        source = drop_words(batch.source, config.source_word_dropout, self.special[0])
        inputs = drop_words(batch.inputs, config.target_word_dropout, self.special[1])
        total, tokens = self._cross_entropy(PairBatch(source, inputs, batch.outputs), config.label_smoothing, r_drop)
        return total / tokens, tokens // 2 if r_drop else tokens

    def _cross_entropy(self, batch: PairBatch, smoothing: float, r_drop: float = 0.0) -> tuple[Tensor, int]:
        """Summed over tokens that are not padding; only these are projected onto the vocabulary."""
        real = batch.outputs != self.pad  # on the CPU, where counting needs no device synchronization
        source, inputs, outputs = (
            to_device(part, self.network.device) for part in (batch.source, batch.inputs, batch.outputs[real])
        )
        features = self.backend.counted_features(source, inputs, real)
        return self.backend.cross_entropy(features, outputs, smoothing, r_drop), len(outputs)

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
    """Cross-entropy per character over windows of one long text. train and valid: character ids [N]."""

    network: RecurrentLanguageModel

    def __init__(
        self, network: RecurrentLanguageModel, train: Tensor, valid: Tensor | None, config: LyricsConfig
    ) -> None:
        self.network, self.train, self.valid, self.config = network, train, valid, config
        self.backend = LyricistBackend(network)
        self.state: RecurrentState | None = None

    def batches(self, epoch: int) -> list[TextBatch]:
        config = self.config
        generator = random.Random(config.loop.seed * 1_000_003 + epoch)
        if config.sampling == "random":
            return list(random_windows(self.train, config.batch_size, config.bptt, generator))
        spare = len(self.train) - config.batch_size * (config.bptt + 1)  # beyond one window of every lane
        offset = generator.randrange(max(1, min(config.bptt, spare + 1))) if config.offset else 0
        return list(consecutive_windows(self.train, config.batch_size, config.bptt, offset))

    def loss(self, batch: TextBatch) -> tuple[Tensor, int]:
        device = self.network.device
        state = self.state if batch.carry else None
        logits, after = self.network(to_device(batch.inputs, device), state, self.backend.scan)
        self.state = RecurrentState(after.hidden.detach(), after.memory.detach())
        outputs = to_device(batch.outputs, device)
        return F.cross_entropy(logits.flatten(0, 1).float(), outputs.flatten()), outputs.numel()

    def validate(self) -> float | None:
        if self.valid is None or len(self.valid) < 2:
            return None
        lanes = max(1, min(VALIDATION_LANES, len(self.valid) // (4 * LEAD_CHARACTERS)))
        total, characters = negative_log_likelihood(self.network, self.valid, lanes, LEAD_CHARACTERS)
        return total / characters

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
