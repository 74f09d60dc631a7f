"""Sentence pairs with their places in files, and the report of dropped pairs."""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from training.config.corpus_languages import parse_pair_name
from training.data.stored_corpus import TextArray, TextWriter, selected
from training.errors import TrainingError, pluralize

Row = tuple[int, str, str]  # line number, source, target


class LeftOutRow(NamedTuple):
    """A row of a corpus that is left out. reason: a line of the report; text: of the row; problem: a sentence for a
    corpus from which nothing is left, or ""."""

    number: int
    reason: str
    text: str
    problem: str = ""


class CorpusNote(NamedTuple):
    """What a reader says about the file: a predicate, such as "begins with titles"."""

    text: str


def malformed(number: int, what: str, text: str, problem: TrainingError) -> LeftOutRow:
    """A line that cannot be read. what: a few words; problem: the error that refuses the line unless it is skipped."""
    return LeftOutRow(number, f"malformed: {what}", text, str(problem))


EMPTY_SIDE = "empty side"
LARGE_PAIRS = 1_000_000  # from here on texts lie in files, not in memory
WRITTEN_PAIRS = 50_000  # to these files at once
MOST_LINES = 1 << 40  # per file
EXAMPLES_PER_REASON = 3
OVERLAP_NAMES = {"pair": "whole pairs", "source": "sources alone", "target": "targets alone"}


@dataclass(frozen=True, slots=True)
class DroppedPair:
    """place: FILE:LINE."""

    place: str
    source: str
    target: str


@dataclass(slots=True)
class DropReason:
    count: int = 0
    examples: list[DroppedPair] = field(default_factory=list)


@dataclass(slots=True)
class CorpusReport:
    """read: pairs in the files. dropped: by reason, in order of first occurrence. overlaps: training pairs shared with
    a held-out set, {"test": {"pair": 3, "source": 1, "target": 0}}, each pair counted once, dropped or not."""

    origin: str
    read: int = 0
    dropped: dict[str, DropReason] = field(default_factory=dict)
    overlaps: dict[str, dict[str, int]] = field(default_factory=dict)
    held_out: int = 0  # pairs set aside for validation
    notes: list[str] = field(default_factory=list)  # warnings about the files, without a full stop
    language_pairs: dict[str, CorpusReport] = field(default_factory=dict)  # of a multilingual corpus

    @property
    def left_out(self) -> int:
        return sum(reason.count for reason in self.dropped.values())

    @property
    def kept(self) -> int:
        return self.read - self.left_out - self.held_out

    def drop(self, reason: str, place: str, source: str, target: str) -> None:
        drops = self.dropped.setdefault(reason, DropReason())
        drops.count += 1
        if len(drops.examples) < EXAMPLES_PER_REASON:
            drops.examples.append(DroppedPair(place, shortened(source), shortened(target)))

    def add(self, other: CorpusReport) -> None:
        """Adds the report of another part of the same corpus."""
        self.read += other.read
        for name, reason in other.dropped.items():
            drops = self.dropped.setdefault(name, DropReason())
            drops.count += reason.count
            drops.examples = [*drops.examples, *reason.examples][:EXAMPLES_PER_REASON]
        self.notes += other.notes

    def swap_sides(self) -> None:
        for reason in self.dropped.values():
            reason.examples = [DroppedPair(e.place, e.target, e.source) for e in reason.examples]

    def lines(self, *, examples: bool = False) -> Iterator[str]:
        """The report for a terminal; one line for a clean corpus."""
        held_out = f", {self.held_out:,} held out" if self.held_out else ""
        read = pluralize(self.read, "pair")
        yield f"{self.origin}: {read} read, {self.left_out:,} left out{held_out}, {self.kept:,} kept"
        if self.language_pairs:
            for name, report in self.language_pairs.items():
                first, *others = report.lines(examples=examples)
                yield from (f"  {name}: {first}", *(f"  {line}" for line in others))
            return
        yield from (f"  note: {note}" for note in self.notes)
        for name, reason in self.dropped.items():
            yield f"  {reason.count:>9,}  {name}"
            if examples:
                yield from (f"             {e.place}  {e.source!r} | {e.target!r}" for e in reason.examples)
        for held_out, counts in self.overlaps.items():
            kinds = ", ".join(f"{count:,} {OVERLAP_NAMES[kind]}" for kind, count in counts.items())
            yield f"  in common with the {held_out} set: {kinds}"

    def table(self) -> str:
        """Markdown for the model card, or "". Names places: the corpus licence may not let a card publish texts."""
        rows = ["| left out | pairs | for example |", "|---|---|---|"]
        for name, reason in self.dropped.items():
            places = ", ".join(example.place for example in reason.examples).replace("|", "\\|")
            rows.append(f"| {name} | {reason.count:,} | {places} |")
        return "\n".join(rows) if self.dropped else ""

    def as_json(self) -> dict[str, Any]:
        dropped = {name: asdict(reason) for name, reason in self.dropped.items()}
        counts = {"read": self.read, "held_out": self.held_out, "kept": self.kept}
        parts = {name: report.as_json() for name, report in self.language_pairs.items()}
        return {
            "origin": self.origin,
            **counts,
            "notes": self.notes,
            "dropped": dropped,
            "overlaps": self.overlaps,
            **({"language_pairs": parts} if parts else {}),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CorpusReport:
        return msgspec.convert(values, cls)

    def write(self, path: Path, mixed: CorpusReport | None = None) -> None:
        """mixed: of the general pairs that are mixed in."""
        content = self.as_json() | ({"mixed": mixed.as_json()} if mixed else {})
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def one_line(text: str) -> str:
    """Replaces white space with a line break in it by one space, since files of translations hold a sentence a line."""
    return re.sub(r"\s*[\r\n]\s*", " ", text) if "\n" in text or "\r" in text else text


def shortened(text: str, most: int = 60) -> str:
    """At most `most` characters, for a message."""
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sources and targets, line by line: lists, or `TextArray`s from LARGE_PAIRS pairs on. origin: their corpus. lines:
    each pair's file and line in `files`, packed into one integer (8 bytes a pair); None: pair n is line n of `origin`.
    folder: where a large corpus is prepared on disk. parts: of a multilingual corpus the name of each language pair and
    the number of its pairs, in their order."""

    sources: Sequence[str]
    targets: Sequence[str]
    origin: str = ""
    files: tuple[str, ...] = field(default=(), compare=False, repr=False)
    lines: array[int] | None = field(default=None, compare=False, repr=False)
    report: CorpusReport | None = field(default=None, compare=False, repr=False)
    folder: Path | None = field(default=None, compare=False, repr=False)
    parts: tuple[tuple[str, int], ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    def place(self, index: int) -> str:
        """FILE:LINE."""
        if self.lines is None:
            return f"{self.origin}:{index + 1}"
        file, line = divmod(self.lines[index], MOST_LINES)
        return f"{self.files[file]}:{line}"

    def swapped(self) -> Pairs:
        """The pairs in the other direction."""
        report = self.reported()
        report.swap_sides()
        return replace(self, sources=self.targets, targets=self.sources, report=report)

    def reported(self) -> CorpusReport:
        """A copy of the report to extend; `self.report` is unchanged."""
        return deepcopy(self.report) if self.report else CorpusReport(self.origin, read=len(self))

    @property
    def large(self) -> bool:
        return isinstance(self.sources, TextArray)

    @property
    def target_language(self) -> str | None:
        """Of one language pair of a multilingual corpus; None for other pairs, which do not know it."""
        languages = parse_pair_name(self.parts[0][0]) if len(self.parts) == 1 else None
        return languages[1] if languages else None

    def only(self, indices: Sequence[int], origin: str, report: CorpusReport | None = None) -> Pairs:
        """The pairs at these ascending indices."""
        lines = self.lines and array("Q", (self.lines[i] for i in indices))
        sources, targets = selected(self.sources, indices), selected(self.targets, indices)
        if len(indices) < LARGE_PAIRS:
            sources, targets = list(sources), list(targets)
        parts, end, taken = [], 0, 0
        for name, count in self.parts:
            end += count
            before, taken = taken, bisect_left(indices, end)
            parts.append((name, taken - before))
        return Pairs(sources, targets, origin, self.files, lines, report, parts=tuple(parts))

    def by_part(self) -> Iterator[tuple[str, Pairs]]:
        """Each language pair of a multilingual corpus; others as one part without a name."""
        if not self.parts:
            yield "", self
            return
        first = 0
        for name, count in self.parts:
            origin = self.report.language_pairs[name].origin if self.report else self.origin
            part = self.only(range(first, first + count), origin)
            yield name, replace(part, parts=((name, count),))
            first += count


class PairCollector:
    """Collects pairs in lists, and from LARGE_PAIRS pairs on in files without a name in the cache folder."""

    def __init__(self) -> None:
        self._pairs: tuple[list[str], list[str]] = ([], [])
        self._writers: tuple[TextWriter, TextWriter] | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self._pairs[0])

    def add(self, source: str, target: str) -> None:
        sources, targets = self._pairs
        sources.append(source)
        targets.append(target)
        if len(sources) == LARGE_PAIRS or (self._writers and len(sources) == WRITTEN_PAIRS):
            self._write()

    def _write(self) -> None:
        self._writers = self._writers or (TextWriter(), TextWriter())
        self._count += len(self._pairs[0])
        for writer, texts in zip(self._writers, self._pairs, strict=True):
            writer.extend(texts)
            texts.clear()

    def finish(self) -> tuple[Sequence[str], Sequence[str]]:
        if self._writers is None:
            return self._pairs
        self._write()
        return self._writers[0].finish(), self._writers[1].finish()


def collect_pairs(rows: Iterable[Row | LeftOutRow | CorpusNote], origin: str) -> Pairs:
    """Strips both sides of white space, drops rows with an empty side, and counts them and `LeftOutRow`s by reason.
    TrainingError if no pair is left."""
    collector, lines, report, problem = PairCollector(), array("Q"), CorpusReport(origin), ""
    for row in rows:
        if isinstance(row, CorpusNote):
            report.notes.append(f"{origin} {row.text}")
            continue
        report.read += 1
        if isinstance(row, LeftOutRow):
            problem = problem or (row.problem and f" Of the lines left out the first: {row.problem}")
            report.drop(row.reason, f"{origin}:{row.number}", row.text, "")
            continue
        number, source, target = row
        source, target = source.strip(), target.strip()
        if not source or not target:
            report.drop(EMPTY_SIDE, f"{origin}:{number}", source, target)
            continue
        collector.add(source, target)
        lines.append(number)
    if not collector:
        raise TrainingError(f"{origin} holds no pair of sentences.{problem}")
    return Pairs(*collector.finish(), origin, (origin,), lines, report)


def join_corpora(parts: Sequence[Pairs]) -> Pairs:
    if len(parts) == 1:
        return parts[0]
    origin = " + ".join(part.origin for part in parts)
    lines, report, collector, files = array("Q"), CorpusReport(origin), PairCollector(), list[str]()
    for part in parts:
        first = len(files) * MOST_LINES
        lines.extend(first + line for line in part.lines or range(1, len(part) + 1))
        files += part.files or (part.origin,)
        report.add(part.reported())
        for source, target in zip(part.sources, part.targets, strict=True):
            collector.add(source, target)
    return Pairs(*collector.finish(), origin, tuple(files), lines, report)
