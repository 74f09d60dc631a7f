"""What was left out of a corpus and why: counts, and a few examples with file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from training.wording import counted

EXAMPLES = 3  # of each reason
SHOWN = 60  # characters of an example's side


@dataclass(frozen=True, slots=True)
class Example:
    """place: FILE:LINE."""

    place: str
    source: str
    target: str


@dataclass(slots=True)
class Reason:
    count: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass(slots=True)
class CorpusReport:
    """read: pairs found; dropped: by reason, in the order of their discovery; overlaps: of training pairs with a
    held-out set, {"test": {"pair": 3, "source": 1, "target": 0}}, each pair counted once, dropped or not."""

    origin: str
    read: int = 0
    dropped: dict[str, Reason] = field(default_factory=dict)
    overlaps: dict[str, dict[str, int]] = field(default_factory=dict)
    held_out: int = 0  # pairs set aside for validation
    notes: list[str] = field(default_factory=list)  # doubts about the files, without a full stop

    @property
    def left_out(self) -> int:
        return sum(reason.count for reason in self.dropped.values())

    @property
    def kept(self) -> int:
        return self.read - self.left_out - self.held_out

    def drop(self, reason: str, place: str, source: str, target: str) -> None:
        found = self.dropped.setdefault(reason, Reason())
        found.count += 1
        if len(found.examples) < EXAMPLES:
            found.examples.append(Example(place, _short(source), _short(target)))

    def add(self, other: CorpusReport) -> None:
        """Take in the report of another part of the same corpus."""
        self.read += other.read
        for name, reason in other.dropped.items():
            mine = self.dropped.setdefault(name, Reason())
            mine.count += reason.count
            mine.examples = [*mine.examples, *reason.examples][:EXAMPLES]
        self.notes += other.notes

    def turn(self) -> None:
        """Sources are targets now."""
        for reason in self.dropped.values():
            reason.examples = [Example(e.place, e.target, e.source) for e in reason.examples]

    def lines(self, *, examples: bool = False) -> Iterator[str]:
        """For a terminal. A clean corpus is one line."""
        held_out = f", {self.held_out:,} held out" if self.held_out else ""
        read = counted(self.read, "pair")
        yield f"{self.origin}: {read} read, {self.left_out:,} left out{held_out}, {self.kept:,} kept"
        yield from (f"  note: {note}" for note in self.notes)
        for name, reason in self.dropped.items():
            yield f"  {reason.count:>9,}  {name}"
            if examples:
                yield from (f"             {e.place}  {e.source!r} | {e.target!r}" for e in reason.examples)
        for held_out, counts in self.overlaps.items():
            kinds = ", ".join(f"{count:,} {_KINDS[kind]}" for kind, count in counts.items())
            yield f"  in common with the {held_out} set: {kinds}"

    def table(self) -> str:
        """For the model card: Markdown, "" where nothing was left out."""
        if not self.dropped:
            return ""
        rows = [f"| {name} | {reason.count:,} | {_cell(reason)} |" for name, reason in self.dropped.items()]
        return "\n".join(["| left out | pairs | for example |", "|---|---|---|", *rows])

    def as_json(self) -> dict[str, Any]:
        dropped = {name: asdict(reason) for name, reason in self.dropped.items()}
        counts = {"read": self.read, "held_out": self.held_out, "kept": self.kept}
        return {
            "origin": self.origin,
            **counts,
            "notes": self.notes,
            "dropped": dropped,
            "overlaps": self.overlaps,
        }

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


_KINDS = {"pair": "whole pairs", "source": "sources alone", "target": "targets alone"}


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _cell(reason: Reason) -> str:
    """Where the first examples stand. Not their text: the licence of a corpus may not let a model card pass it on."""
    return ", ".join(example.place for example in reason.examples).replace("|", "\\|")
