"""The words of a translation, in order, and which stretch of its source each comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.text.markup.passage import Inline

_NOWHERE = -1
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # written without spaces
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Word:
    """start, end: in the translation. source_start, source_end: where it comes from; -1, -1: nobody says."""

    start: int
    end: int
    source_start: int = _NOWHERE
    source_end: int = _NOWHERE

    @property
    def aligned(self) -> bool:
        return self.source_start >= 0


def words(source: str, target: str, alignment: Sequence[Word] | None, verbatim: Sequence[Inline]) -> list[Word]:
    """Without an alignment each comes from where it would stand if both texts told the same things at one pace.
    What the translation kept of a verbatim element, to the letter, is one word."""
    known = _kept(source, target, verbatim)
    said = list(_valid(source, target, alignment or ()))
    taken = _outside(known, [part for each in said for part in _parts(source, target, each)])
    told = sorted([*known, *taken], key=lambda each: each.start)
    told += list(_between(target, told))
    told.sort(key=lambda each: each.start)
    return told if said else _at_one_pace(source, target, told)


def _kept(source: str, target: str, verbatim: Sequence[Inline]) -> list[Word]:
    """Equal ones in the order in which they stand in the source."""
    behind: dict[str, int] = {}
    found: list[Word] = []
    for each in verbatim:
        shown = source[each.start : each.end]
        start = target.find(shown, behind.get(shown, 0))
        while start >= 0 and _cuts_a_word(target, start, start + len(shown)):
            start = target.find(shown, start + 1)
        behind[shown] = start + len(shown) if start >= 0 else len(target)
        if start >= 0:
            found.append(Word(start, start + len(shown), each.start, each.end))
    found.sort(key=lambda each: each.start)
    return [each for i, each in enumerate(found) if not i or found[i - 1].end <= each.start]


def _cuts_a_word(text: str, start: int, end: int) -> bool:
    return (text[start - 1 : start].isalnum() and text[start].isalnum()) or (
        text[end - 1].isalnum() and text[end : end + 1].isalnum()
    )


def _valid(source: str, target: str, alignment: Sequence[Word]) -> Iterator[Word]:
    behind = 0
    for each in sorted(alignment, key=lambda word: word.start):
        in_target = behind <= each.start < each.end <= len(target)
        if in_target and 0 <= each.source_start < each.source_end <= len(source):
            behind = each.end
            yield each


def _parts(source: str, target: str, each: Word) -> Iterator[Word]:
    """A word and its punctuation, which comes from the punctuation of the other word if that has any."""
    here, there = _cut(target, each.start, each.end), _cut(source, each.source_start, each.source_end)
    if here is None or there is None:
        yield Word(each.start, each.end, each.source_start, each.source_end)
        return
    for (start, end), (source_start, source_end) in zip(here, there, strict=True):
        if start < end and source_start < source_end:
            yield Word(start, end, source_start, source_end)
        elif start < end:
            yield Word(start, end)


def _cut(text: str, start: int, end: int) -> list[tuple[int, int]] | None:
    """Punctuation, word, punctuation; whitespace is in none of them. None: it holds no word."""
    core = _CORE.search(text, start, end)
    if core is None:
        return None
    before, behind = text[start : core.start()], text[core.end() : end]
    return [
        (start + len(before) - len(before.lstrip()), core.start()),
        core.span(),
        (core.end(), end - (len(behind) - len(behind.rstrip()))),
    ]


def _outside(known: Sequence[Word], others: Sequence[Word]) -> list[Word]:
    starts = [each.start for each in known]
    free = []
    for each in others:
        place = bisect_right(starts, each.end - 1) - 1
        if place < 0 or known[place].end <= each.start:
            free.append(each)
    return free


def _between(target: str, told: Sequence[Word]) -> Iterator[Word]:
    """What no alignment tells of, sorted in by word."""
    behind = 0
    for start, end in [*((each.start, each.end) for each in told), (len(target), len(target))]:
        for found in _WORD.finditer(target, behind, start):
            yield Word(*found.span())
        behind = end


def _at_one_pace(source: str, target: str, told: Sequence[Word]) -> list[Word]:
    spans = [found.span() for found in _WORD.finditer(source)]
    starts = [start for start, _ in spans]
    if not starts:
        return list(told)
    placed = []
    for each in told:
        if not each.aligned:
            middle = (each.start + each.end) / 2 / len(target) * len(source)
            span = spans[max(0, bisect_right(starts, middle) - 1)]
            parts = list(_parts(source, target, Word(each.start, each.end, *span)))
            placed += parts
        else:
            placed.append(each)
    return placed
