"""The rules that leave training pairs out, overlap with held-out pairs, and the held-out split."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from training.config.run_config import CleaningConfig
from training.data.sentence_pairs import CorpusReport, Pairs
from training.errors import TrainingError, pluralize

OverlapKind = Literal["pair", "source", "target"]


def comparison_key(text: str) -> str:
    """The text but for case, white space and compatibility forms (NFKC, as the tokenizers normalise)."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold().strip(" ")
    if "  " in text or not text.isprintable():  # what is printable has no other white space than the space
        text = " ".join(text.split())
    return text


class HeldOutIndex:
    """The sentences of a held-out set, to be looked up."""

    def __init__(self, held_out: Pairs) -> None:
        self._targets_of: dict[str, set[str]] = {}
        self._targets: set[str] = set()
        for source, target in zip(held_out.sources, held_out.targets, strict=True):
            key = comparison_key(target)
            self._targets_of.setdefault(comparison_key(source), set()).add(key)
            self._targets.add(key)

    def kind(self, source: str, target: str) -> OverlapKind | None:
        """What a pair, its sides already `comparable`, has in common with the set; the gravest only."""
        if source in self._targets_of:
            return "pair" if target in self._targets_of[source] else "source"
        return "target" if target in self._targets else None


Rule = Callable[[str, str], bool]  # of a pair: is it to be left out?
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
# UTF-8 that was read as Windows-1252: a lead byte's character, then a continuation byte's
MOJIBAKE = re.compile("[\u00c2-\u00f4][\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]")
DROPPED_OVERLAPS = {"pair": {"pair"}, "source": {"pair", "source"}, "either": {"pair", "source", "target"}}


def clean(pairs: Pairs, config: CleaningConfig, *, validation: Pairs | None = None, test: Pairs | None = None) -> Pairs:
    """The pairs that no rule leaves out, in their order, with the report. The first rule that applies is the reason.

    TrainingError if fewer than `config.least_pairs` are left.
    """
    report = pairs.reported()
    rules = list(_rules(pairs, config).items())  # a loop over a list: a million pairs take seconds
    held_out = {name: held for name, held in (("test", test), ("validation", validation)) if held is not None}
    report.notes += [note for held in held_out.values() for note in held.reported().notes]
    overlaps = _OverlapCounter(held_out, config, report)
    kept = []
    for index, (source, target) in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        for name, applies in rules:
            if applies(source, target):
                reason: str | None = name
                break
        else:
            reason = overlaps.reason(source, target)
        if reason is None:
            kept.append(index)
        else:
            report.drop(reason, pairs.place(index), source, target)
    if len(kept) < config.least_pairs:
        raise TrainingError(_too_few(report, len(kept), config.least_pairs))
    return pairs.only(kept, dropped=report.left_out, origin=pairs.origin, report=report)


def _too_few(report: CorpusReport, kept: int, least: int) -> str:
    reasons = ", ".join(f"{name} {reason.count:,}" for name, reason in report.dropped.items())
    cleaned = f" of {report.read:,} after cleaning ({reasons})" if reasons else ""
    found, needed = pluralize(kept, "pair") if kept else "no pairs", {1: "one", 2: "two"}.get(least, f"{least:,}")
    return f"{report.origin} has {found}{cleaned}; training needs at least {needed}."


def _rules(pairs: Pairs, config: CleaningConfig) -> Mapping[str, Rule]:
    rules: dict[str, Rule] = {}
    if config.broken:
        rules["broken characters"] = lambda source, target: is_broken(source) or is_broken(target)
    if config.max_characters is not None:
        most = config.max_characters
        rules[f"over {pluralize(most, 'character')}"] = lambda source, target: len(source) > most or len(target) > most
    if config.identical_from is not None:
        least = config.identical_from
        rules["identical sides"] = lambda source, target: source == target and len(source) >= least
    if config.ratio is not None:
        rules["length ratio"] = _ratio(pairs, config.ratio, config.ratio_tolerance)
    if config.duplicates:
        rules["exact duplicate"] = _Duplicates()
    return rules


def is_broken(text: str) -> bool:
    """Control characters, U+FFFD (which decoders put for what they cannot read), or UTF-8 decoded as Windows-1252."""
    if text.isascii():
        return not text.isprintable() and CONTROL.search(text) is not None
    if "\ufffd" in text or (not text.isprintable() and CONTROL.search(text) is not None):
        return True
    return MOJIBAKE.search(text) is not None and _was_utf8(text)


def _was_utf8(text: str) -> bool:
    for encoding in ("cp1252", "latin-1"):
        try:
            text.encode(encoding).decode()
        except UnicodeError:
            continue
        return True
    return False


def _ratio(pairs: Pairs, most: float, tolerance: int) -> Rule:
    """Lengths in characters, measured against the corpus's own median ratio: a Chinese sentence has a third of the
    characters of its English translation, and no limit on the plain ratio suits both that and German."""
    lengths = (np.fromiter(map(len, side), np.float64, len(pairs)) for side in (pairs.sources, pairs.targets))
    source_lengths, target_lengths = lengths
    typical = float(np.median(target_lengths / source_lengths)) if len(pairs) else 1.0

    def applies(source: str, target: str) -> bool:
        expected, found = len(source) * typical, len(target)
        return found > most * expected + tolerance or expected > most * found + tolerance

    return applies


class _Duplicates:
    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def __call__(self, source: str, target: str) -> bool:
        before = len(self._seen)
        self._seen.add((source, target))
        return len(self._seen) == before


class _OverlapCounter:
    """The held-out sets, whose overlap is counted whether it is dropped or not."""

    def __init__(self, held_out: Mapping[str, Pairs], config: CleaningConfig, report: CorpusReport) -> None:
        self._sets = {name: HeldOutIndex(pairs) for name, pairs in held_out.items()}
        self._drops = DROPPED_OVERLAPS.get(config.overlap, set())
        self._counts = report.overlaps
        self._counts.update({name: {"pair": 0, "source": 0, "target": 0} for name in held_out})

    def reason(self, source: str, target: str) -> str | None:
        if not self._sets:
            return None
        source, target = comparison_key(source), comparison_key(target)
        reason = None
        for name, held_out in self._sets.items():
            kind = held_out.kind(source, target)
            if kind is not None:
                self._counts[name][kind] += 1
                if reason is None and kind in self._drops:
                    reason = f"in the {name} set"
        return reason


def hold_out(pairs: Pairs, seed: int, share: float = 0.02, most: int = 1000) -> tuple[Pairs, Pairs | None]:
    """Training and validation pairs. Fewer than 100 pairs: none is spared.

    Pairs that share a source or a target with a held-out one, but for case and white space, go with it, so that
    none is scored on what it saw.
    """
    if len(pairs) < 100:
        return pairs, None
    order = random.Random(seed).sample(range(len(pairs)), min(most, max(10, int(len(pairs) * share))))
    chosen = set(order)
    sources, targets = (
        {comparison_key(pairs.sources[i]) for i in order},
        {comparison_key(pairs.targets[i]) for i in order},
    )
    rest, report = [], pairs.reported()
    for index, (source, target) in enumerate(zip(pairs.sources, pairs.targets, strict=True)):
        if comparison_key(source) not in sources and comparison_key(target) not in targets:
            rest.append(index)
        elif index not in chosen:
            report.drop("shares a side with a held-out pair", pairs.place(index), source, target)
    if not rest:
        return pairs, None
    report.held_out = len(chosen)
    held_out = f"{pluralize(len(chosen), 'pair')} held out of {pairs.origin}"
    return (
        pairs.only(rest, dropped=pairs.dropped, origin=pairs.origin, report=report),
        pairs.only(sorted(chosen), dropped=0, origin=held_out, report=None),
    )
