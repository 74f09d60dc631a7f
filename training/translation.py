"""The task of a translator: pairs of token ids, smoothed cross-entropy, held-out cross-entropy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from models.transformer import Transformer
from training.batches import Lazy, PairBatch, by_length, pair_batch
from training.regularisers import Regularisers, drop_words
from training.segmentation import PairIds


class TranslationTask:
    """sources carry their end token, targets their start and end tokens."""

    def __init__(
        self,
        network: Transformer,
        train: PairIds | Callable[[int], PairIds],
        valid: PairIds | None,
        *,
        label_smoothing: float,
        tokens_per_batch: int,
        seed: int,
        regularisers: Regularisers | None = None,
    ) -> None:
        """train: the pairs of every epoch, or what returns those of epoch 0, 1, ..."""
        self.network, self.label_smoothing = network, label_smoothing
        self.regularisers = regularisers or Regularisers()
        self.r_drop = self.regularisers.r_drop  # of the running epoch
        self.train, self.valid = train, valid
        self.tokens_per_batch, self.seed = tokens_per_batch, seed
        self.pad = network.config.pad

    def batches(self, epoch: int) -> Sequence[PairBatch]:
        options = self.regularisers
        self.r_drop = options.r_drop if epoch >= options.r_drop_after_epochs else 0.0
        return self._batches(self.train(epoch) if callable(self.train) else self.train, epoch)

    def _batches(self, pairs: PairIds, epoch: int) -> Sequence[PairBatch]:
        sources, targets = pairs
        lengths = [(len(s), len(t) - 1) for s, t in zip(sources, targets, strict=True)]
        groups = by_length(lengths, self.tokens_per_batch, self.seed, epoch)
        return Lazy(groups, lambda g: pair_batch([sources[i] for i in g], [targets[i] for i in g], self.pad))

    def loss(self, batch: PairBatch) -> tuple[Tensor, int]:
        """The mean over the tokens that are not padding. With R-Drop each pair goes through twice, and alpha/4 of
        the symmetric divergence of its two predictions is added (Liang et al. 2021, equation 4, divided by 2)."""
        options, pull = self.regularisers, self.r_drop
        if pull:
            batch = PairBatch(*(torch.cat([part, part]) for part in batch))
        source = drop_words(batch.source, options.source_word_dropout)
        inputs = drop_words(batch.inputs, options.target_word_dropout)
        total, tokens = self._cross_entropy(PairBatch(source, inputs, batch.outputs), self.label_smoothing, pull)
        return total / tokens, tokens // 2 if pull else tokens

    def _cross_entropy(self, batch: PairBatch, smoothing: float, pull: float = 0.0) -> tuple[Tensor, int]:
        """Summed over the tokens that are not padding; only these are projected onto the vocabulary."""
        real = batch.outputs != self.pad  # here, where nobody waits for a device to know how many they are
        source, inputs, wanted = map(self._sent, (batch.source, batch.inputs, batch.outputs[real]))
        features = self.network.counted_features(source, inputs, real)
        return self.network.cross_entropy(features, wanted, smoothing, pull), len(wanted)

    def _sent(self, part: Tensor) -> Tensor:
        """To the network's device. From pinned memory a copy runs beside the device's work, and the host goes on."""
        device = self.network.device
        return part.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else part.to(device)

    def validate(self) -> float | None:
        if self.valid is None:
            return None
        parts = [self._cross_entropy(batch, 0.0) for batch in self._batches(self.valid, 0)]
        total = torch.stack([part for part, _ in parts]).sum().item()
        return total / sum(tokens for _, tokens in parts)

    def part(self, batch: PairBatch, rank: int, count: int) -> PairBatch | None:
        part = PairBatch(*(rows[rank::count] for rows in batch))
        return part if len(part.source) else None

    def carried(self) -> dict[str, Tensor]:
        return {}

    def restore(self, carried: dict[str, Tensor]) -> None:
        """Nothing is carried from batch to batch."""
