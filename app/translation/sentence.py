"""One sentence as the model reads it: without marks and, where it cannot copy them, without links. What was taken out
is kept with its place, to be put back into the translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from app.engine.jobs import AlignedWord
from app.text.characters import CLOSING, JOINERS, MARK, ODD, SOFT_HYPHEN, WIDTHLESS, spells
from app.text.protected import Kept, kept_spans

_PAUSE = re.compile("[,;: ]*")
_BRACKETS = ("()", "[]", "<>", '""', "“”", "„“", "«»", "（）")


@dataclass(frozen=True, slots=True)
class Mark:
    """`text` stands at `at` in what the model reads, which has `gap` there instead. length: of what it stands for in
    the source."""

    at: int
    text: str
    gap: str
    length: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """source: as it stands in the text. clean: what the model reads."""

    source: str
    clean: str
    marks: tuple[Mark, ...] = ()

    @classmethod
    def of(cls, source: str, out: Sequence[Kept] = ()) -> Sentence:
        """out: what is taken out beside marks; in order, none within another."""
        if not out and not ODD.search(source):
            return cls(source, source)
        clean: list[str] = []
        marks: list[Mark] = []
        at = length = 0
        for start, end, text in _taken_out(source, out):
            clean.append(source[at:start])
            length += start - at
            gap = _gap(source, start, end, text)
            marks.append(Mark(length, text, gap, end - start))
            clean.append(gap)
            length += len(gap)
            at = end
        return cls(source, "".join((*clean, source[at:])), tuple(marks))

    @property
    def shown_marks(self) -> list[Mark]:
        """Those that the translation has to hold."""
        return [mark for mark in self.marks if mark.text]

    def in_source(self, words: Iterable[AlignedWord]) -> tuple[AlignedWord, ...]:
        """The same, their sources counted in `source` instead of `clean`."""
        ends = [mark.at + len(mark.gap) for mark in self.marks]
        starts = [mark.at for mark in self.marks]
        growth = list(accumulate((mark.length - len(mark.gap) for mark in self.marks), initial=0))
        found = []
        for word in words:
            start = word.source_start + growth[bisect_right(ends, word.source_start)]
            end = word.source_end + growth[bisect_left(starts, word.source_end)]
            found.append(replace(word, source_start=start, source_end=max(start, end)))
        return tuple(found)


def _taken_out(source: str, out: Sequence[Kept]) -> Iterator[tuple[int, int, str]]:
    """Start, end and text of each run of marks and of what is `out`: neighbours are one."""
    if not out and not ODD.search(source):
        return
    marks = list(_marks(source))
    if not out:  # a link or a placeholder with a mark within is taken out as a whole
        out = [each for each in kept_spans(source) if ODD.search(source, each.start, each.end)]
    spans = sorted([*marks, *(_with_brackets(source, each) for each in out)])
    if spans and spans[0][0] == 0:  # the comma behind a name at the beginning goes with it
        pause = _PAUSE.match(source, spans[0][1])
        spans[0] = (0, pause.end() if pause else spans[0][1])
    rest = deque(spans)
    while rest:
        start, end = rest.popleft()
        while rest and rest[0][0] <= end:
            end = max(end, rest.popleft()[1])
        text = source[start:end]
        if text != " ":
            yield start, end, "" if text == SOFT_HYPHEN else text


def _marks(source: str) -> Iterator[tuple[int, int]]:
    for found in MARK.finditer(source):
        if found[0] not in JOINERS or not spells(source, found.start()):
            yield found.span()
    at = source.find(SOFT_HYPHEN)
    while at >= 0:
        yield at, at + 1
        at = source.find(SOFT_HYPHEN, at + 1)


def _with_brackets(source: str, kept: Kept) -> tuple[int, int]:
    around = source[max(0, kept.start - 1) : kept.start] + source[kept.end : kept.end + 1]
    wider = around in _BRACKETS
    return kept.start - wider, kept.end + wider


def _gap(source: str, start: int, end: int, text: str) -> str:
    """What the model reads instead: a space, where one parts words."""
    at_edge = start == 0 or end == len(source) or (source[end] in CLOSING and not source[end - 1].isspace())
    return "" if at_edge or not text or WIDTHLESS.fullmatch(text) else " "
