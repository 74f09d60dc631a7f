"""Pairs of texts, and where each stands."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from training.corpora.report import CorpusReport
from training.errors import TrainingError

Row = tuple[int, str, str]  # line number, source, target
EMPTY_SIDE = "empty side"
_LINE_BITS = 40


@dataclass(frozen=True, slots=True)
class Places:
    """Of each pair: which of `names`, and which line there, in one integer (eight bytes a pair)."""

    names: tuple[str, ...]
    numbers: array[int]

    def of(self, index: int) -> str:
        """FILE:LINE."""
        number = self.numbers[index]
        return f"{self.names[number >> _LINE_BITS]}:{number & ((1 << _LINE_BITS) - 1)}"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sources and targets, line by line; `dropped` counts what was left out. `origin`: where from."""

    sources: list[str]
    targets: list[str]
    dropped: int = 0
    origin: str = ""
    places: Places | None = field(default=None, compare=False, repr=False)
    report: CorpusReport | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.sources)

    def place(self, index: int) -> str:
        return self.places.of(index) if self.places else f"{self.origin}:{index + 1}"

    def reported(self) -> CorpusReport:
        """A report of its own, to go on with: `self.report` stays as it is."""
        return deepcopy(self.report) if self.report else CorpusReport(self.origin, read=len(self))

    def only(self, indices: Sequence[int], *, dropped: int, origin: str, report: CorpusReport | None) -> Pairs:
        places = self.places and Places(self.places.names, array("Q", (self.places.numbers[i] for i in indices)))
        sources, targets = [self.sources[i] for i in indices], [self.targets[i] for i in indices]
        return Pairs(sources, targets, dropped, origin, places, report)


def collect(rows: Iterable[Row], origin: str) -> Pairs:
    """Both sides stripped of outer white space; a row with an empty side is no pair and is left out.

    TrainingError if no pair is left.
    """
    sources: list[str] = []
    targets: list[str] = []
    numbers, report = array("Q"), CorpusReport(origin)
    for number, source, target in rows:
        source, target = source.strip(), target.strip()
        report.read += 1
        if not source or not target:
            report.drop(EMPTY_SIDE, f"{origin}:{number}", source, target)
            continue
        sources.append(source)
        targets.append(target)
        numbers.append(number)
    if not sources:
        raise TrainingError(f"{origin} holds no pair of sentences.")
    return Pairs(sources, targets, report.left_out, origin, Places((origin,), numbers), report)


def joined(parts: Sequence[Pairs]) -> Pairs:
    """One corpus of several, in their order."""
    if len(parts) == 1:
        return parts[0]
    origin = " + ".join(part.origin for part in parts)
    numbers, report = array("Q"), CorpusReport(origin)
    for index, part in enumerate(parts):
        numbers.extend(
            index << _LINE_BITS | n for n in (part.places.numbers if part.places else range(1, len(part) + 1))
        )
        report.add(part.reported())
    sources = [text for part in parts for text in part.sources]
    targets = [text for part in parts for text in part.targets]
    names = tuple(part.origin for part in parts)
    return Pairs(sources, targets, report.left_out, origin, Places(names, numbers), report)
