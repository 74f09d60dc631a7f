"""The task of a translator: pairs of token ids, smoothed cross-entropy, held-out cross-entropy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.transformer import Transformer
from training.batches import Ids, PairBatch, by_length, pair_batch


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

    def batches(self, epoch: int) -> list[PairBatch]:
        return self._batches(self.train, epoch)

    def _batches(self, pairs: tuple[Sequence[Ids], Sequence[Ids]], epoch: int) -> list[PairBatch]:
        sources, targets = pairs
        lengths = [(len(s), len(t) - 1) for s, t in zip(sources, targets, strict=True)]
        groups = by_length(lengths, self.tokens_per_batch, self.seed, epoch)
        return [pair_batch([sources[i] for i in g], [targets[i] for i in g], self.pad) for g in groups]

    def loss(self, batch: PairBatch) -> tuple[Tensor, int]:
        total, tokens = self._cross_entropy(batch, self.label_smoothing)
        return total / tokens, tokens

    def _cross_entropy(self, batch: PairBatch, smoothing: float) -> tuple[Tensor, int]:
        """Summed over the tokens that are not padding; only these are projected onto the vocabulary."""
        real = batch.outputs != self.pad  # here, where nobody waits for a device to know how many they are
        source, inputs, wanted = map(self._sent, (batch.source, batch.inputs, batch.outputs[real]))
        features = self.network.counted_features(source, inputs, real)
        return self.network.cross_entropy(features, wanted, smoothing), len(wanted)

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

    def carried(self) -> dict[str, Tensor]:
        return {}

    def restore(self, carried: dict[str, Tensor]) -> None:
        """Nothing is carried from batch to batch."""
