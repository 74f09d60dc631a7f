"""Cleaning rules for training pairs, overlap with held-out pairs, and the held-out split."""

from __future__ import annotations

import math
import random
import re
import unicodedata
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from training.config.run_config import CleaningConfig
from training.data.progress_bar import progress_bar
from training.data.sentence_pairs import Pairs
from training.data.stored_corpus import blocks
from training.data.stored_corpus import hashes as hashes_of
from training.errors import TrainingError, pluralize

OverlapKind = Literal["pair", "source", "target"]


def comparison_key(text: str) -> str:
    """The text without differences of case, white space and compatibility forms (NFKC, as in the tokenizers)."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold().strip(" ")
    if "  " in text or not text.isprintable():  # a printable text has no white space other than spaces
        text = " ".join(text.split())
    return text


class HeldOutIndex:
    """An index of a held-out set's sentences, with a count of training pairs that overlap with it."""

    def __init__(self, held_out: Pairs) -> None:
        self.counts: dict[str, int] = {"pair": 0, "source": 0, "target": 0}
        self._targets_of: dict[str, set[str]] = {}
        for source, target in zip(held_out.sources, held_out.targets, strict=True):
            self._targets_of.setdefault(comparison_key(source), set()).add(comparison_key(target))
        self._targets = set().union(*self._targets_of.values())

    def count(self, source: str, target: str) -> OverlapKind | None:
        """Counts the strongest overlap of a pair (as comparison keys) with the set, and returns it."""
        kind: OverlapKind | None = "target" if target in self._targets else None
        if source in self._targets_of:
            kind = "pair" if target in self._targets_of[source] else "source"
        if kind is not None:
            self.counts[kind] += 1
        return kind


Rule = Callable[[int, str, str], bool]  # index, source, target -> True: the pair is dropped
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
# UTF-8 decoded as Windows-1252: the character of a lead byte, then of a continuation byte
MOJIBAKE = re.compile("[\u00c2-\u00f4][\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]")
_IN_SET = "in the {} set"
DROPPED_OVERLAPS = {"pair": {"pair"}, "source": {"pair", "source"}, "either": {"pair", "source", "target"}}


def clean(pairs: Pairs, config: CleaningConfig, *, validation: Pairs | None = None, test: Pairs | None = None) -> Pairs:
    """The pairs that pass all rules, with a report by first failed rule. TrainingError below `config.least_pairs`."""
    report = pairs.reported()
    rules = list(_rules(pairs, config).items())
    held_out = {name: held for name, held in (("test", test), ("validation", validation)) if held is not None}
    report.notes += [note for held in held_out.values() for note in held.reported().notes]
    indexes = {name: HeldOutIndex(held) for name, held in held_out.items()}
    dropped_overlaps = DROPPED_OVERLAPS.get(config.overlap, set())
    kept = array("Q")
    for place, source, target in _numbered(pairs, "cleaning"):
        reason = next((name for name, applies in rules if applies(place, source, target)), None)
        if reason is None and indexes:
            keys = comparison_key(source), comparison_key(target)
            kinds = [(name, index.count(*keys)) for name, index in indexes.items()]
            reason = next((_IN_SET.format(name) for name, kind in kinds if kind in dropped_overlaps), None)
        if reason is None:
            kept.append(place)
        else:
            report.drop(reason, pairs.place(place), source, target)
    report.overlaps |= {name: dict(index.counts) for name, index in indexes.items()}
    if len(kept) < config.least_pairs:
        reasons = ", ".join(f"{name} {reason.count:,}" for name, reason in report.dropped.items())
        cleaned = f" of {report.read:,} after cleaning ({reasons})" if reasons else ""
        left = pluralize(len(kept), "pair") if kept else "no pairs"
        needed = {1: "one", 2: "two"}.get(config.least_pairs, f"{config.least_pairs:,}")
        held = {name: report.dropped.get(_IN_SET.format(name)) for name in held_out}
        same = next((name for name, drops in held.items() if drops and 2 * drops.count > report.read), "")
        way = f": these are the pairs of --{same.removesuffix('ation')}, which takes others" if same else ""
        raise TrainingError(f"{report.origin} has {left}{cleaned}; training needs at least {needed}{way}.")
    return pairs.only(kept, pairs.origin, report)


def _rules(pairs: Pairs, config: CleaningConfig) -> Mapping[str, Rule]:
    rules: dict[str, Rule] = {}
    if config.broken:
        rules["broken characters"] = lambda _, source, target: is_broken(source) or is_broken(target)
    if config.max_characters is not None:
        most = config.max_characters
        rules[f"over {pluralize(most, 'character')}"] = lambda _, source, target: (
            len(source) > most or len(target) > most
        )
    if config.identical_from is not None:
        least = config.identical_from
        rules["identical sides"] = lambda _, source, target: source == target and len(source) >= least
    if config.ratio is not None:
        rules["length ratio"] = _ratio(pairs, config.ratio, config.ratio_tolerance)
    if config.duplicates:
        rules["exact duplicate"] = _duplicate(pairs)
    return rules


def is_broken(text: str) -> bool:
    """Control characters, U+FFFD (a decoder's replacement character), or UTF-8 decoded as Windows-1252."""
    if text.isascii():
        return not text.isprintable() and CONTROL.search(text) is not None
    if "\ufffd" in text or (not text.isprintable() and CONTROL.search(text) is not None):
        return True
    return MOJIBAKE.search(text) is not None and _was_utf8(text)


def _was_utf8(text: str) -> bool:
    for encoding in ("cp1252", "latin-1"):
        with suppress(UnicodeError):
            text.encode(encoding).decode()
            return True
    return False


def _ratio(pairs: Pairs, most: float, tolerance: int) -> Rule:
    """Length ratio in characters, relative to the corpus median: Chinese has a third of the characters of English."""
    source_lengths = np.fromiter(map(len, pairs.sources), np.float64, len(pairs))
    target_lengths = np.fromiter(map(len, pairs.targets), np.float64, len(pairs))
    typical = float(np.median(target_lengths / source_lengths)) if len(pairs) else 1.0

    def applies(_: int, source: str, target: str) -> bool:
        expected, length = len(source) * typical, len(target)
        return length > most * expected + tolerance or expected > most * length + tolerance

    return applies


def _duplicate(pairs: Pairs) -> Rule:
    repeats = repeated_pairs(pairs)
    return lambda place, *_: bool(repeats[place])


def repeated_pairs(pairs: Pairs) -> NDArray[np.bool_]:
    """[N]: whether an earlier pair is equal. Compares hashes of 64 bits, 16 bytes a pair, and then the texts of pairs
    with equal hashes, so that a collision drops nothing."""
    unsorted = hashes_of(zip(pairs.sources, pairs.targets, strict=True), len(pairs))
    order = np.argsort(unsorted, kind="stable")
    hashes = unsorted[order]
    repeats = np.zeros(len(pairs), np.bool_)
    first: dict[tuple[str, str], int] = {}  # of the running group of equal hashes
    for at in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
        if at == 0 or hashes[at - 1] != hashes[at]:
            place = int(order[at])
            first = {(pairs.sources[place], pairs.targets[place]): place}
        place = int(order[at + 1])
        repeats[place] = first.setdefault((pairs.sources[place], pairs.targets[place]), place) != place
    return repeats


def _numbered(pairs: Pairs, task: str) -> Iterator[tuple[int, str, str]]:
    """Index, source and target of every pair, with a progress bar where that takes long."""
    with progress_bar(task, len(pairs)) as bar:
        place = 0
        for sources, targets in zip(blocks(pairs.sources), blocks(pairs.targets), strict=True):
            for source, target in zip(sources, targets, strict=True):
                yield place, source, target
                place += 1
            bar.update(len(sources))


LEAST_HELD_OUT = 500  # sentences; a BLEU on fewer is uncertain by more than 2
BLEU_SPREAD = 48.0  # / sqrt(sentences): half of a BLEU's 95 % interval, as measured on Multi30k (`benchmarks/LOG.md`)


def held_out_count(pairs: int) -> int:
    """How many of so many pairs to hold out for validation: 2 %, at least 500 and at most 1,000, but never more than a
    tenth of the corpus (at least 10)."""
    return min(1000, max(int(pairs * 0.02), min(LEAST_HELD_OUT, max(10, pairs // 10))))


def hold_out(pairs: Pairs, seed: int, *, warns: bool = True) -> tuple[Pairs, Pairs | None]:
    """Training and validation pairs (None below 100 pairs). Drops training pairs that share a source or target with a
    held-out pair, ignoring case and white space. warns: with a note if few pairs are held out."""
    if len(pairs) < 100:
        return pairs, None
    order = random.Random(seed).sample(range(len(pairs)), held_out_count(len(pairs)))
    chosen = set(order)
    held_out = pairs.only(sorted(chosen), f"{pluralize(len(chosen), 'pair')} held out of {pairs.origin}")
    index, rest, report = HeldOutIndex(held_out), array("Q"), pairs.reported()
    for place, source, target in _numbered(pairs, "holding out"):
        if index.count(comparison_key(source), comparison_key(target)) is None:
            rest.append(place)
        elif place not in chosen:
            report.drop("shares a side with a held-out pair", pairs.place(place), source, target)
    if not rest:
        return pairs, None
    report.held_out = len(chosen)
    if warns and len(chosen) < LEAST_HELD_OUT:
        spread = BLEU_SPREAD / math.sqrt(len(chosen))
        report.notes.append(
            f"only {len(chosen):,} pairs are held out, so that a BLEU on them is uncertain by about ± {spread:.1f}"
            f" (95 % interval); --valid FILE takes {LEAST_HELD_OUT} or more pairs of your own"
        )
    return pairs.only(rest, pairs.origin, report), held_out
