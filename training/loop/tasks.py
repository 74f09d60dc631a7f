"""What the trainer trains: the `Task` protocol, and the tasks of translators and lyricists."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.backends.torch.recurrent_step import RecurrentState
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer
from training.config.run_config import LyricsConfig, TranslatorConfig
from training.data.batches import (
    LazyBatches,
    PairBatch,
    TextBatch,
    batches_by_length,
    consecutive_windows,
    pair_batch,
    random_windows,
)
from training.data.segmentation import PairIds
from training.data.tokenizer_training import BOS, EOS, PAD, UNKNOWN
from training.errors import TrainingError, pluralize


class Task(Protocol):
    """What is trained. Batches of an epoch depend on (seed, epoch) alone."""

    @property
    def network(self) -> nn.Module: ...

    def batches(self, epoch: int) -> Sequence[Any]: ...

    def loss(self, batch: Any) -> tuple[Tensor, int]:
        """The mean loss of a batch to descend, and how many tokens it counts."""
        ...

    def validate(self) -> float | None:
        """Nats per token on the held-out set; None where there is none."""
        ...

    def part(self, batch: Any, rank: int, count: int) -> Any | None:
        """Rows rank, rank + count, ... of a batch; None where there are none."""
        ...

    def carried(self) -> dict[str, Tensor]:
        """What goes from batch to batch beside the weights; a batch's rows are dimension 1."""
        ...

    def restore(self, carried: dict[str, Tensor]) -> None: ...


SPECIAL_IDS = (PAD, UNKNOWN, BOS, EOS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regularisers:
    """As `training.config.run_config.TranslatorConfig` says."""

    r_drop: float = 0.0
    r_drop_after_epochs: int = 0
    source_word_dropout: float = 0.0
    target_word_dropout: float = 0.0

    @classmethod
    def of(cls, config: TranslatorConfig) -> Regularisers:
        return cls(**{name: getattr(config, name) for name in cls.__slots__})


def drop_words(ids: Tensor, share: float) -> Tensor:
    """ids [B, T] -> the same with `share` of its words read as the unknown one; special tokens stay. The draw comes
    from PyTorch's generator, as dropout's does: a snapshot holds its state."""
    if not share:
        return ids
    drawn = torch.rand(ids.shape, device=ids.device) < share
    return ids.masked_fill(drawn & (ids > max(SPECIAL_IDS)), UNKNOWN)


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
        groups = batches_by_length(lengths, self.tokens_per_batch, self.seed, epoch)
        return LazyBatches(groups, lambda g: pair_batch([sources[i] for i in g], [targets[i] for i in g], self.pad))

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


LEAD_CHARACTERS = 512  # characters that a strand reads before those that it counts
VALIDATION_LANES = 32
IGNORED_TARGET = -100  # a target that cross-entropy leaves out


class LyricsTask:
    """train and valid: character ids [N]."""

    def __init__(
        self, network: RecurrentLanguageModel, train: Tensor, valid: Tensor | None, config: LyricsConfig
    ) -> None:
        self.network, self.train, self.valid, self.config = network, train, valid, config
        self.state: RecurrentState | None = None

    def batches(self, epoch: int) -> list[TextBatch]:
        config = self.config
        generator = random.Random(config.loop.seed * 1_000_003 + epoch)
        if config.sampling == "random":
            return list(random_windows(self.train, config.rows, config.steps, generator))
        spare = len(self.train) - config.rows * (config.steps + 1)  # beyond one window of every strand
        offset = generator.randrange(max(1, min(config.steps, spare + 1))) if config.offset else 0
        return list(consecutive_windows(self.train, config.rows, config.steps, offset))

    def loss(self, batch: TextBatch) -> tuple[Tensor, int]:
        device = self.network.device
        state = self.state if batch.carry else None
        logits, after = self.network(batch.inputs.to(device), state)
        self.state = RecurrentState(after.hidden.detach(), after.memory.detach())
        outputs = batch.outputs.to(device)
        return F.cross_entropy(logits.flatten(0, 1).float(), outputs.flatten()), outputs.numel()

    def validate(self) -> float | None:
        if self.valid is None or len(self.valid) < 2:
            return None
        strands = min(VALIDATION_LANES, len(self.valid) // (4 * LEAD_CHARACTERS))
        if strands > 1:
            total, characters = likelihood_in_lanes(self.network, self.valid, strands, LEAD_CHARACTERS)
        else:
            total, characters = negative_log_likelihood(self.network, self.valid)
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


@torch.inference_mode()
def negative_log_likelihood(network: RecurrentLanguageModel, text: Tensor, window: int = 1024) -> tuple[float, int]:
    """Nats of a text [N] read from its start to its end in one strand, and the characters counted: all but the
    first, which nothing predicts."""
    state, total = None, 0.0
    text = text.to(network.device)
    for i in range(0, len(text) - 1, window):
        inputs, outputs = text[i : i + window], text[i + 1 : i + 1 + window]
        logits, state = network(inputs[None, : len(outputs)], state)
        total += F.cross_entropy(logits[0].double(), outputs, reduction="sum").item()
    return total, len(text) - 1


@torch.inference_mode()
def likelihood_in_lanes(
    network: RecurrentLanguageModel, text: Tensor, strands: int, lead: int, window: int = 128
) -> tuple[float, int]:
    """As `negative_log_likelihood`, many times as fast: the text is cut into `strands` that are read side by side.
    Each but the first begins `lead` characters earlier, from a zero state, and counts from where the one before ends:
    what a state remembers from further back is lost."""
    text = text.to(network.device)
    counted = -(-(len(text) - 1 - lead) // strands)
    missing = lead + counted * strands + 1 - len(text)
    cut = F.pad(text, (0, missing), value=IGNORED_TARGET).unfold(0, lead + counted + 1, counted)
    inputs, outputs = cut[:, :-1].clamp(min=0), cut[:, 1:].clone()
    outputs[1:, :lead] = IGNORED_TARGET
    state, total = None, 0.0
    for i in range(0, inputs.size(1), window):
        logits, state = network(inputs[:, i : i + window], state)
        nats = F.cross_entropy(logits.flatten(0, 1), outputs[:, i : i + window].flatten(), reduction="none")
        total += nats.double().sum().item()
    return total, len(text) - 1
