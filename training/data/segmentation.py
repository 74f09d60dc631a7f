"""Segments pairs into token ids. The pairs of an epoch depend on (seed, epoch) alone, so that a resumed run repeats
them."""

from __future__ import annotations

import hashlib
import json
import random
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from models.checkpoint import Checkpoint, CheckpointConfig
from models.tokenizer import Tokenizer
from training.config.run_config import TranslatorConfig
from training.data.batches import TokenIds
from training.data.progress_bar import progress_bar
from training.data.sentence_pairs import CorpusReport, Pairs
from training.data.stored_corpus import TokenArray, TokenWriter, blocks, fill_folder, locked
from training.data.tokenizer_training import tokenizer_digest
from training.errors import TrainingError, pluralize

MOSTLY = 0.5  # unknown characters of a target, from which on the pair is left out
REASON = "target that the vocabulary mostly cannot write"
SHOWN = 10  # characters of a note
WAY_OUT = (
    "leave them out of the corpus, or train a new network with a vocabulary of its own, where --set"
    " tokenizer.byte_fallback=true writes any character"
)


class UnwritableTargets:
    """What a vocabulary cannot write in the targets of a corpus.

    A translator never generates the unknown token: decoding suppresses it. Taught to expect it, a network would give it
    the probability of the right next token, and what is decoded instead would be noise. So the loss leaves these places
    out, and a target that mostly consists of them is no target. The rest of such a sentence is worth learning: emoji or
    arrows stand in half of the sentences of some corpora.

    texts: targets with parts that the vocabulary cannot write, of which `left_out` are left out. parts: these parts,
    characters as a rule, with the number of texts that they occur in."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.parts: Counter[str] = Counter()
        self.texts = self.left_out = 0

    def count(self, text: str) -> bool:
        """Counts a text with unknown tokens. Returns whether its pair is left out."""
        unknown = [text[p.start : p.end] for p in self.tokenizer.pieces(text) if p.id == self.tokenizer.special.unknown]
        self.texts += 1
        self.parts.update(dict.fromkeys(single for part in unknown for single in self._single(part)).keys())
        is_left_out = sum(map(len, unknown)) > MOSTLY * len("".join(text.split()))
        self.left_out += is_left_out
        return is_left_out

    def _single(self, part: str) -> list[str]:
        """The unknown characters of a run of them; a whole piece whose characters are known."""
        return [character for character in part if self.tokenizer.unknown(character)] or [part]

    def note(self) -> str:
        """The predicate of a sentence on the corpus, without a full stop; "" if the vocabulary can write it all."""
        if not self.texts:
            return ""
        most = ", ".join(f"{part} {count:,}" for part, count in self.parts.most_common(SHOWN))
        listed = f"{most}, …" if len(self.parts) > SHOWN else most
        where = (
            f"has {pluralize(self.texts, 'target')} with {pluralize(len(self.parts), 'character')} that the vocabulary"
        )
        gone = f" (left out: {pluralize(self.left_out, 'pair')} of mostly such characters)" if self.left_out else ""
        return f"{where} cannot write ({listed}): they are not trained on, and translations lack them{gone}; {WAY_OUT}"


PairIds = tuple[Sequence[TokenIds], Sequence[TokenIds]]
"""Sources with their end token, targets with their start and end tokens."""
TokenArrays = tuple[TokenArray, TokenArray]
SIDES = ("source", "target")
TOKENS_FORMAT = 2  # of the files below; part of their digest
KEPT_FILE, REPORT_FILE = "kept", "report.json"  # indices of the pairs with tokens; what is said of the others


def untaught(checkpoint: Checkpoint) -> int | None:
    """The unknown token, where it is never generated, so that it is never a target; None if all are taught."""
    unknown = checkpoint.tokenizers["target"].special.unknown
    return unknown if unknown in checkpoint.config.suppressed else None


def target_end(config: CheckpointConfig) -> tuple[int, ...]:
    """The tokens after every target; () if the model has no end token."""
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


class Segmentation:
    """Pairs of at most `config.max_tokens` tokens a side whose targets can be written; `report` counts the others.
    TrainingError if none is left.

    The token ids of a large corpus lie in mapped files, in the corpus's prepared folder for later runs."""

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
            others = f" or has a {REASON}" if REASON in self.report.dropped else ""
            raise TrainingError(f"Every pair is longer than {most}{others}: nothing is left to train on.")
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
        unknown = untaught(self.checkpoint)
        unwritable = UnwritableTargets(self.checkpoint.tokenizers["target"])
        with progress_bar("tokenizing", len(pairs)) as bar:
            for texts in zip(blocks(pairs.sources), blocks(pairs.targets), strict=True):
                rows = pair_ids(self.checkpoint, Pairs(*texts))
                short = []
                for i, (source, target) in enumerate(zip(*rows, strict=True)):
                    if max(len(source), len(target)) > most:
                        reason = f"over {pluralize(most, 'token')}"
                    elif unknown in target and unwritable.count(texts[1][i]):
                        reason = REASON
                    else:
                        short.append(i)
                        continue
                    self.report.drop(reason, pairs.place(place + i), texts[0][i], texts[1][i])
                for writer, ids in zip(writers, rows, strict=True):
                    writer.extend(ids[i] for i in short)
                kept.extend(place + i for i in short)
                place += len(texts[0])
                bar.update(len(texts[0]))
        if note := unwritable.note():
            self.report.notes.append(f"{pairs.origin} {note}")
        return (writers[0].finish(), writers[1].finish()), kept

    def _prepared(self, pairs: Pairs, folder: Path) -> tuple[TokenArrays, array[int]]:
        """The result of `_tokenize` in files of `folder`, which are read if an earlier run has written them."""
        before = self.report

        def fill(aside: Path) -> None:
            self.report = CorpusReport(pairs.origin)
            _, kept = self._tokenize(pairs, self._writers(aside))
            (aside / KEPT_FILE).write_bytes(kept.tobytes())
            self.report.write(aside / REPORT_FILE)

        with locked(folder):
            if not folder.is_dir():
                fill_folder(folder, fill)
        tokenized = CorpusReport.from_json(json.loads((folder / REPORT_FILE).read_text(encoding="utf-8")))
        self.report = before
        self.report.add(tokenized)
        source, target = (TokenArray.mapped(folder, side, self._vocabulary) for side in SIDES)
        return (source, target), array("q", (folder / KEPT_FILE).read_bytes())

    def epoch(self, number: int) -> PairIds:
        """The pairs of epoch 0, 1, ..."""
        sources, targets = self.best
        if not self.parts:
            return sources, targets
        seed = f"{self.config.loop.seed} {number}"
        rows = epoch_rows(self.parts, self.config.multilingual.sampling_temperature, seed)
        return sources.select(rows), targets.select(rows)
