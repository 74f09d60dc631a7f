"""Sentence pairs with their places in files, and the report of dropped pairs."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from training.errors import TrainingError, pluralize

Row = tuple[int, str, str]  # line number, source, target
EMPTY_SIDE = "empty side"
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
        return {"origin": self.origin, **counts, "notes": self.notes, "dropped": dropped, "overlaps": self.overlaps}

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def shortened(text: str, most: int = 60) -> str:
    """At most `most` characters, for a message."""
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sources and targets, line by line. origin: their corpus. lines: each pair's file and line in `files`, packed into
    one integer (8 bytes a pair); None: pair n is line n of `origin`."""

    sources: list[str]
    targets: list[str]
    origin: str = ""
    files: tuple[str, ...] = field(default=(), compare=False, repr=False)
    lines: array[int] | None = field(default=None, compare=False, repr=False)
    report: CorpusReport | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.sources)

    def place(self, index: int) -> str:
        """FILE:LINE."""
        if self.lines is None:
            return f"{self.origin}:{index + 1}"
        file, line = divmod(self.lines[index], MOST_LINES)
        return f"{self.files[file]}:{line}"

    def reported(self) -> CorpusReport:
        """A copy of the report to extend; `self.report` is unchanged."""
        return deepcopy(self.report) if self.report else CorpusReport(self.origin, read=len(self))

    def only(self, indices: Sequence[int], origin: str, report: CorpusReport | None = None) -> Pairs:
        lines = self.lines and array("Q", (self.lines[i] for i in indices))
        sources, targets = [self.sources[i] for i in indices], [self.targets[i] for i in indices]
        return Pairs(sources, targets, origin, self.files, lines, report)


def collect_pairs(rows: Iterable[Row], origin: str) -> Pairs:
    """Strips both sides of white space and drops rows with an empty side. TrainingError if no pair is left."""
    pairs = Pairs([], [], origin, (origin,), array("Q"), report := CorpusReport(origin))
    assert pairs.lines is not None
    for number, source, target in rows:
        source, target = source.strip(), target.strip()
        report.read += 1
        if not source or not target:
            report.drop(EMPTY_SIDE, f"{origin}:{number}", source, target)
            continue
        pairs.sources.append(source)
        pairs.targets.append(target)
        pairs.lines.append(number)
    if not pairs.sources:
        raise TrainingError(f"{origin} holds no pair of sentences.")
    return pairs


def join_corpora(parts: Sequence[Pairs]) -> Pairs:
    if len(parts) == 1:
        return parts[0]
    origin = " + ".join(part.origin for part in parts)
    lines, report = array("Q"), CorpusReport(origin)
    for index, part in enumerate(parts):
        lines.extend(index * MOST_LINES + line for line in part.lines or range(1, len(part) + 1))
        report.add(part.reported())
    sources = [text for part in parts for text in part.sources]
    targets = [text for part in parts for text in part.targets]
    return Pairs(sources, targets, origin, tuple(part.origin for part in parts), lines, report)
