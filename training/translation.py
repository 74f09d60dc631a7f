"""The task of a translator: pairs of token ids, smoothed cross-entropy, held-out cross-entropy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from models.transformer import Transformer
from training.batches import Ids, Lazy, PairBatch, by_length, pair_batch


class TranslationTask:
    """sources carry their end token, targets their start and end tokens."""

    def __init__(
        self,
        network: Transformer,
        train: tuple[Sequence[Ids], Sequence[Ids]],
        valid: tuple[Sequence[Ids], Sequence[Ids]] | None,
        *,
        label_smoothing: float,
        tokens_per_batch: int,
        seed: int,
    ) -> None:
        self.network, self.label_smoothing = network, label_smoothing
        self.train, self.valid = train, valid
        self.tokens_per_batch, self.seed = tokens_per_batch, seed
        self.pad = network.config.pad

    def batches(self, epoch: int) -> Sequence[PairBatch]:
        return self._batches(self.train, epoch)

    def _batches(self, pairs: tuple[Sequence[Ids], Sequence[Ids]], epoch: int) -> Sequence[PairBatch]:
        sources, targets = pairs
        lengths = [(len(s), len(t) - 1) for s, t in zip(sources, targets, strict=True)]
        groups = by_length(lengths, self.tokens_per_batch, self.seed, epoch)
        return Lazy(groups, lambda g: pair_batch([sources[i] for i in g], [targets[i] for i in g], self.pad))

    def loss(self, batch: PairBatch) -> tuple[Tensor, int]:
        total, tokens = self._cross_entropy(batch, self.label_smoothing)
        return total / tokens, tokens

    def _cross_entropy(self, batch: PairBatch, smoothing: float) -> tuple[Tensor, int]:
        """Summed over the tokens that are not padding; only these are projected onto the vocabulary."""
        source, inputs, outputs = (part.to(self.network.device) for part in batch)
        real = outputs != self.pad
        features = self.network.features(source, inputs)[real]
        wanted = outputs[real]
        logits = self.network.project(features).float()
        return F.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing), len(wanted)

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
