"""Segments pairs into token ids: once, or sampled from (seed, epoch) alone, so that a resumed run repeats them."""

from __future__ import annotations

import hashlib
import json
import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch

from models.checkpoint import Checkpoint, CheckpointConfig
from models.tokenizer import SentencePieceTokenizer
from training.config.run_config import TranslatorConfig
from training.data.batches import TokenIds
from training.data.cache_folder import fill_folder, locked
from training.data.progress_bar import progress_bar
from training.data.sentence_pairs import DropReason, Pairs
from training.data.text_array import BLOCK_TEXTS, blocks, selected
from training.data.token_array import TokenArray, TokenWriter
from training.data.tokenizer_training import SPECIAL_TOKENS, UNKNOWN, language_ids, tokenizer_digest
from training.errors import TrainingError, pluralize

PairIds = tuple[Sequence[TokenIds], Sequence[TokenIds]]
"""Sources with their end token, targets with their start and end tokens."""
TokenArrays = tuple[TokenArray, TokenArray]
SIDES = ("source", "target")
TOKENS_FORMAT = 1  # of the files below; part of their digest
KEPT_FILE, DROPPED_FILE = "kept", "dropped.json"  # indices of the pairs with tokens; the others, for the report


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
    tokenizers, threads = checkpoint.tokenizers, torch.get_num_threads()
    sources = tokenizers["source"].encode_all(pairs.sources, threads)
    targets = tokenizers["target"].encode_all(pairs.targets, threads)
    return [_source(checkpoint, ids) for ids in sources], [_target(checkpoint, ids) for ids in targets]


def _source(checkpoint: Checkpoint, ids: Sequence[int]) -> TokenIds:
    return (*checkpoint.source_prefix(ids), *ids, *checkpoint.config.source_suffix)


def _target(checkpoint: Checkpoint, ids: Sequence[int]) -> TokenIds:
    return (*checkpoint.config.target_prefix, *ids, *target_end(checkpoint.config))


def parted(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    return (rows[first : first + BLOCK_TEXTS] for first in range(0, len(rows), BLOCK_TEXTS))


class Segmentation:
    """Pairs of at most `config.max_tokens` tokens a side; `report` counts longer ones. TrainingError if none is left.

    The token ids of a large corpus lie in mapped files: those of the best segmentation in the corpus's prepared folder,
    for later runs, those of a sampled epoch in files without a name."""

    def __init__(self, checkpoint: Checkpoint, pairs: Pairs, config: TranslatorConfig) -> None:
        self.checkpoint, self.config, self.report = checkpoint, config, pairs.reported()
        self._vocabulary = max(tokenizer.size for tokenizer in checkpoint.tokenizers.values())
        self._large = pairs.large
        if pairs.folder is None:
            self.best, kept = self._tokenize(pairs, self._writers())
        else:
            self.best, kept = self._prepared(pairs, pairs.folder / f"tokens-{self._digest()}")
        if not len(kept):
            most = pluralize(config.max_tokens, "token")
            raise TrainingError(f"Every pair is longer than {most}: nothing is left to train on.")
        self.texts = selected(pairs.sources, kept), selected(pairs.targets, kept)
        self.parts = pairs.only(kept, pairs.origin).parts if pairs.parts else ()

    def _digest(self) -> str:
        """Identifies everything that the tokens of a corpus depend on."""
        config = self.checkpoint.config
        around = config.source_prefix, config.source_suffix, config.target_prefix, target_end(config)
        parts = TOKENS_FORMAT, tokenizer_digest(self.checkpoint.tokenizers), around, self.config.max_tokens
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def _writers(self, folder: Path | None = None) -> tuple[TokenWriter, TokenWriter]:
        return self._writer("source", folder), self._writer("target", folder)

    def _writer(self, side: str, folder: Path | None = None) -> TokenWriter:
        return TokenWriter(self._vocabulary, folder, side, in_file=self._large)

    def _tokenize(self, pairs: Pairs, writers: tuple[TokenWriter, TokenWriter]) -> tuple[TokenArrays, array[int]]:
        """Token ids of the pairs that are short enough, and the indices of these."""
        most, kept, place = self.config.max_tokens, array("q"), 0
        with progress_bar("tokenizing", len(pairs)) as bar:
            for texts in zip(blocks(pairs.sources), blocks(pairs.targets), strict=True):
                rows = pair_ids(self.checkpoint, Pairs(*texts))
                short = [i for i, (s, t) in enumerate(zip(*rows, strict=True)) if max(len(s), len(t)) <= most]
                for i in sorted(set(range(len(texts[0]))).difference(short)) if len(short) < len(texts[0]) else ():
                    self.report.drop(
                        f"over {pluralize(most, 'token')}", pairs.place(place + i), texts[0][i], texts[1][i]
                    )
                for writer, ids in zip(writers, rows, strict=True):
                    writer.extend(ids[i] for i in short)
                kept.extend(place + i for i in short)
                place += len(texts[0])
                bar.update(len(texts[0]))
        return (writers[0].finish(), writers[1].finish()), kept

    def _prepared(self, pairs: Pairs, folder: Path) -> tuple[TokenArrays, array[int]]:
        """The result of `_tokenize` in files of `folder`, which are read if an earlier run has written them."""
        name = f"over {pluralize(self.config.max_tokens, 'token')}"

        def fill(aside: Path) -> None:
            _, kept = self._tokenize(pairs, self._writers(aside))
            (aside / KEPT_FILE).write_bytes(kept.tobytes())
            dropped = self.report.dropped.get(name)
            (aside / DROPPED_FILE).write_text(json.dumps(asdict(dropped) if dropped else None), encoding="utf-8")

        with locked(folder):
            if not folder.is_dir():
                fill_folder(folder, fill)
        if dropped := json.loads((folder / DROPPED_FILE).read_text(encoding="utf-8")):
            self.report.dropped[name] = DropReason.from_json(dropped)
        source, target = (TokenArray.mapped(folder, side, self._vocabulary) for side in SIDES)
        return (source, target), array("q", (folder / KEPT_FILE).read_bytes())

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
        which, tokenizer = SIDES.index(side), self.checkpoint.tokenizers[side]
        best, texts = self.best[which], self.texts[which]
        if not share or not isinstance(tokenizer, SentencePieceTokenizer):
            return best if rows is None else best.select(rows)
        generator = random.Random(self._generator(side, epoch).getrandbits(64))
        around, writer = (_source, _target)[which], self._writer(side)
        with progress_bar(f"segmenting epoch {epoch}, {side}", len(texts if rows is None else rows)) as bar:
            for some in blocks(texts) if rows is None else ([texts[i] for i in part] for part in parted(rows)):
                sampled = tokenizer.sample(some, share, generator, self.config.tokenizer.algorithm)
                writer.extend(around(self.checkpoint, ids) for ids in sampled)
                bar.update(len(some))
        return writer.finish()

    def _swap_half(self, sources: Sequence[TokenIds], targets: Sequence[TokenIds], epoch: int) -> PairIds:
        """Swaps source and target of half of the pairs, for a joint vocabulary."""
        generator, prefix = self._generator("turned", epoch), self.checkpoint.config.target_prefix
        writers = self._writers()
        for first in range(0, len(sources), BLOCK_TEXTS):
            rows = sources[first : first + BLOCK_TEXTS], targets[first : first + BLOCK_TEXTS]
            swapped = [generator.random() < 0.5 for _ in rows[0]]
            writers[0].extend(t[len(prefix) :] if swap else s for s, t, swap in zip(*rows, swapped, strict=True))
            writers[1].extend((*prefix, *s) if swap else t for s, t, swap in zip(*rows, swapped, strict=True))
        return writers[0].finish(), writers[1].finish()

    def _generator(self, purpose: str, epoch: int) -> random.Random:
        return random.Random(f"{purpose} {self.config.loop.seed} {epoch}")  # hashed the same way on every machine
