"""Segments pairs into token ids: once, or sampled from (seed, epoch) alone, so that a resumed run repeats them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from models.checkpoint import Checkpoint, CheckpointConfig
from models.tokenizer import SentencePieceTokenizer
from training.config.run_config import TranslatorConfig
from training.data.batches import TokenIds
from training.data.sentence_pairs import Pairs
from training.data.tokenizer_training import SPECIAL_TOKENS, UNKNOWN, language_ids
from training.errors import TrainingError, pluralize

PairIds = tuple[Sequence[TokenIds], Sequence[TokenIds]]
"""Sources with their end token, targets with their start and end tokens."""


class SpecialIds(NamedTuple):
    """Special tokens of one side, for word dropout. unknown: None if the vocabulary has no such token. spared: never
    dropped."""

    unknown: int | None = UNKNOWN
    spared: tuple[int, ...] = tuple(sorted(SPECIAL_TOKENS.ids()))


def special_ids(checkpoint: Checkpoint, side: str) -> SpecialIds:
    """side: "source" or "target"."""
    config, special = checkpoint.config, checkpoint.tokenizers[side].special
    around = (
        (*config.source_prefix, *config.source_suffix)
        if side == "source"
        else (*config.target_prefix, *target_end(config))
    )
    languages = language_ids(checkpoint.tokenizers[side])
    return SpecialIds(special.unknown, tuple(sorted({*special.ids(), *around, *languages.values()})))


def target_end(config: CheckpointConfig) -> tuple[int, ...]:
    """The tokens behind every target; () if the model has no end token."""
    return () if config.eos is None else (config.eos,)


def epoch_sizes(counts: Sequence[int], temperature: float) -> list[int]:
    """How many pairs an epoch reads of corpora of so many: shares in proportion to count ** (1/T) (Arivazhagan et al.
    2019, arXiv 1907.05019), of an epoch that reads the largest corpus once."""
    largest = max(counts)
    return [round(largest * (count / largest) ** (1 / temperature)) if count else 0 for count in counts]


def epoch_rows(parts: Sequence[tuple[str, int]], temperature: float, seed: str) -> list[int]:
    """The pairs of one epoch over consecutive parts (name, number of pairs), of `epoch_sizes`: each pair of a part as
    often as any other of it, or once more."""
    rows, first, sizes = list[int](), 0, epoch_sizes([count for _, count in parts], temperature)
    for (name, count), size in zip(parts, sizes, strict=True):
        part = range(first, first + count)
        rows += [*part] * (size // max(count, 1))
        rows += sorted(random.Random(f"{name} {seed}").sample(part, size % max(count, 1)))
        first += count
    return rows


def pair_ids(checkpoint: Checkpoint, pairs: Pairs) -> PairIds:
    """The best segmentation of every text."""
    end = target_end(checkpoint.config)
    sources = [checkpoint.source_ids(text) for text in pairs.sources]
    targets = [(*checkpoint.target_ids(text), *end) for text in pairs.targets]
    return sources, targets


class Segmentation:
    """Pairs of at most `config.max_tokens` tokens a side; `report` counts longer ones. TrainingError if none."""

    def __init__(self, checkpoint: Checkpoint, pairs: Pairs, config: TranslatorConfig) -> None:
        sources, targets = pair_ids(checkpoint, pairs)
        most, kept, self.report = config.max_tokens, [], pairs.reported()
        for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if max(len(source), len(target)) <= most:
                kept.append(i)
            else:
                self.report.drop(f"over {pluralize(most, 'token')}", pairs.place(i), pairs.sources[i], pairs.targets[i])
        if not kept:
            raise TrainingError(f"Every pair is longer than {pluralize(most, 'token')}: nothing is left to train on.")
        self.checkpoint, self.config = checkpoint, config
        self.best: PairIds = [sources[i] for i in kept], [targets[i] for i in kept]
        self.texts = [pairs.sources[i] for i in kept], [pairs.targets[i] for i in kept]
        self.parts = pairs.only(kept, pairs.origin).parts if pairs.parts else ()

    def epoch(self, number: int) -> PairIds:
        """The pairs of epoch 0, 1, ... A sampled segmentation may exceed `max_tokens`."""
        temperature, seed = self.config.multilingual.sampling_temperature, f"{self.config.loop.seed} {number}"
        rows = epoch_rows(self.parts, temperature, seed) if self.parts else None
        sources = self._side("source", number, self.config.tokenizer.source_sampling, rows)
        targets = self._side("target", number, self.config.tokenizer.target_sampling, rows)
        if number < self.config.bidirectional_epochs:
            return self._swap_half(sources, targets, number)
        return sources, targets

    def _side(self, side: str, epoch: int, share: float, rows: Sequence[int] | None) -> Sequence[TokenIds]:
        """rows: the pairs of this epoch; None: all of them."""
        which, tokenizer = ("source", "target").index(side), self.checkpoint.tokenizers[side]
        if not share or not isinstance(tokenizer, SentencePieceTokenizer):
            return self.best[which] if rows is None else [self.best[which][i] for i in rows]
        seed = self._generator(side, epoch).getrandbits(64)
        texts = self.texts[which] if rows is None else [self.texts[which][i] for i in rows]
        sampled = tokenizer.sample(texts, share, seed, self.config.tokenizer.algorithm)
        checkpoint, config = self.checkpoint, self.checkpoint.config
        if side == "source":
            return [(*checkpoint.source_prefix(ids), *ids, *config.source_suffix) for ids in sampled]
        return [(*config.target_prefix, *ids, *target_end(config)) for ids in sampled]

    def _swap_half(self, sources: Sequence[TokenIds], targets: Sequence[TokenIds], epoch: int) -> PairIds:
        """Swaps source and target of half of the pairs, for a joint vocabulary."""
        generator, prefix = self._generator("turned", epoch), self.checkpoint.config.target_prefix
        pairs: tuple[list[TokenIds], list[TokenIds]] = [], []
        for source, target in zip(sources, targets, strict=True):
            swapped = generator.random() < 0.5
            pairs[0].append(target[len(prefix) :] if swapped else source)
            pairs[1].append((*prefix, *source) if swapped else target)
        return pairs

    def _generator(self, purpose: str, epoch: int) -> random.Random:
        return random.Random(f"{purpose} {self.config.loop.seed} {epoch}")  # hashed the same way on every machine
