"""Where the inline elements of a passage go in its translation: around the words that are aligned with theirs, nested
as they were.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from app.text.html_passages import InlineElement

_NOWHERE = -1
_UNSPACED_SCRIPTS = (
    r"\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # written without spaces
)
_WORD = re.compile(rf"[{_UNSPACED_SCRIPTS}]|[^\s{_UNSPACED_SCRIPTS}]+")
_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AlignedSpan:
    """start, end: in the translation. source_start, source_end: where it comes from; -1, -1: nobody says."""

    start: int
    end: int
    source_start: int = _NOWHERE
    source_end: int = _NOWHERE

    @property
    def aligned(self) -> bool:
        return self.source_start >= 0


def aligned_words(
    source: str, target: str, alignment: Sequence[AlignedSpan] | None, verbatim: Sequence[InlineElement]
) -> list[AlignedSpan]:
    """Without an alignment each comes from where it would stand if both texts told the same things at one pace.
    What the translation kept of a verbatim element, to the letter, is one word."""
    known = _verbatim_words(source, target, verbatim)
    said = list(_valid_alignment(source, target, alignment or ()))
    taken = _outside_of(known, [part for each in said for part in _word_parts(source, target, each)])
    told = sorted([*known, *taken], key=lambda each: each.start)
    told += list(_unaligned_words(target, told))
    told.sort(key=lambda each: each.start)
    return told if said else _linearly_aligned(source, target, told)


def _verbatim_words(source: str, target: str, verbatim: Sequence[InlineElement]) -> list[AlignedSpan]:
    """Equal ones in the order in which they stand in the source."""
    behind: dict[str, int] = {}
    found: list[AlignedSpan] = []
    for each in verbatim:
        shown = source[each.start : each.end]
        start = target.find(shown, behind.get(shown, 0))
        while start >= 0 and _cuts_a_word(target, start, start + len(shown)):
            start = target.find(shown, start + 1)
        behind[shown] = start + len(shown) if start >= 0 else len(target)
        if start >= 0:
            found.append(AlignedSpan(start, start + len(shown), each.start, each.end))
    found.sort(key=lambda each: each.start)
    return [each for i, each in enumerate(found) if not i or found[i - 1].end <= each.start]


def _cuts_a_word(text: str, start: int, end: int) -> bool:
    return (text[start - 1 : start].isalnum() and text[start].isalnum()) or (
        text[end - 1].isalnum() and text[end : end + 1].isalnum()
    )


def _valid_alignment(source: str, target: str, alignment: Sequence[AlignedSpan]) -> Iterator[AlignedSpan]:
    behind = 0
    for each in sorted(alignment, key=lambda word: word.start):
        in_target = behind <= each.start < each.end <= len(target)
        if in_target and 0 <= each.source_start < each.source_end <= len(source):
            behind = each.end
            yield each


def _word_parts(source: str, target: str, each: AlignedSpan) -> Iterator[AlignedSpan]:
    """A word and its punctuation, which comes from the punctuation of the other word if that has any."""
    here, there = (
        _punctuation_parts(target, each.start, each.end),
        _punctuation_parts(source, each.source_start, each.source_end),
    )
    if here is None or there is None:
        yield AlignedSpan(each.start, each.end, each.source_start, each.source_end)
        return
    for (start, end), (source_start, source_end) in zip(here, there, strict=True):
        if start < end and source_start < source_end:
            yield AlignedSpan(start, end, source_start, source_end)
        elif start < end:
            yield AlignedSpan(start, end)


def _punctuation_parts(text: str, start: int, end: int) -> list[tuple[int, int]] | None:
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


def _outside_of(known: Sequence[AlignedSpan], others: Sequence[AlignedSpan]) -> list[AlignedSpan]:
    starts = [each.start for each in known]
    free = []
    for each in others:
        place = bisect_right(starts, each.end - 1) - 1
        if place < 0 or known[place].end <= each.start:
            free.append(each)
    return free


def _unaligned_words(target: str, told: Sequence[AlignedSpan]) -> Iterator[AlignedSpan]:
    """What no alignment tells of, sorted in by word."""
    behind = 0
    for start, end in [*((each.start, each.end) for each in told), (len(target), len(target))]:
        for found in _WORD.finditer(target, behind, start):
            yield AlignedSpan(*found.span())
        behind = end


def _linearly_aligned(source: str, target: str, told: Sequence[AlignedSpan]) -> list[AlignedSpan]:
    spans = [found.span() for found in _WORD.finditer(source)]
    starts = [start for start, _ in spans]
    if not starts:
        return list(told)
    placed = []
    for each in told:
        if not each.aligned:
            middle = (each.start + each.end) / 2 / len(target) * len(source)
            span = spans[max(0, bisect_right(starts, middle) - 1)]
            parts = list(_word_parts(source, target, AlignedSpan(each.start, each.end, *span)))
            placed += parts
        else:
            placed.append(each)
    return placed


_FOREIGN_WORD_COST = (
    0.5  # what a word that comes from elsewhere costs an element that would stand around it, its own bring 1
)


@dataclass(frozen=True, slots=True)
class PlacedElement:
    """An inline element around the words `first` to `behind` - 1, or before word `first` if that is none."""

    inline: InlineElement
    first: int
    behind: int
    within: tuple[PlacedElement, ...] = ()


class TagPlacement:
    """text: of the passage. words: of its translation."""

    def __init__(self, text: str, words: Sequence[AlignedSpan]) -> None:
        self._text, self._words = text, words
        told = [(each, i) for i, each in enumerate(words) if each.aligned]
        self._starts = sorted((each.source_start, i) for each, i in told)
        self._ends = sorted((each.source_end, i) for each, i in told)

    def placed(self, inline: Sequence[InlineElement]) -> tuple[PlacedElement, ...]:
        return self._within(inline, 0, len(self._text), 0, len(self._words))

    def _within(
        self, inline: Sequence[InlineElement], start: int, end: int, first: int, behind: int
    ) -> tuple[PlacedElement, ...]:
        """Between `start` and `end` of the text, which became the words `first` to `behind` - 1. Elements beside each
        other may change places, as their words do; not those that reach into another passage."""
        if not inline:
            return ()
        start, end = self._trimmed(start, end)
        before, last = [], []
        if inline[0].from_start:
            each, inline = inline[0], inline[1:]
            border = behind if each.end >= end else self._split(each, range(first, behind), 1)
            before = [
                PlacedElement(each, first, border, self._within(each.within, each.start, each.end, first, border))
            ]
            start, first = max(start, each.end), border
        if inline and inline[-1].to_end:
            each, inline = inline[-1], inline[:-1]
            border = first if each.start <= start else self._split(each, range(behind - 1, first - 1, -1), 0)
            last = [
                PlacedElement(each, border, behind, self._within(each.within, each.start, each.end, border, behind))
            ]
            end, behind = min(end, each.start), border
        return (*before, *self._between(inline, *self._trimmed(start, end), first, behind), *last)

    def _split(self, each: InlineElement, way: range, offset: int) -> int:
        """How far from an edge on the words come from `each` rather than from elsewhere."""
        best, most, score = way.start + 1 - offset, 0.0, 0.0
        for i in way:
            word = self._words[i]
            own = word.aligned and word.source_start < each.end and each.start < word.source_end
            score += 1.0 if own else -1.0 if word.aligned else -_FOREIGN_WORD_COST
            if score >= most:
                best, most = i + offset, score
        return best

    def _between(
        self, inline: Sequence[InlineElement], start: int, end: int, first: int, behind: int
    ) -> Iterator[PlacedElement]:
        around = [each for each in inline if self._text[each.start : each.end].strip()]
        if len(around) == 1 and around[0].part == "element" and around[0].start <= start and end <= around[0].end:
            spans = [(first, behind)]
        else:
            spans = self._spans(around, first, behind)
        taken = {id(each): span for each, span in zip(around, spans, strict=True) if span[0] < span[1]}
        borders = sorted(taken.values())
        result = []
        for each in inline:
            if id(each) in taken:
                span = taken[id(each)]
                result.append(PlacedElement(each, *span, self._within(each.within, each.start, each.end, *span)))
            else:
                result.append(_collapsed_at(each, self._gap(each, start, end, first, behind, borders)))
        yield from sorted(result, key=lambda placed: (placed.first, placed.behind))

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        said = self._text[start:end]
        return start + len(said) - len(said.lstrip()), end - (len(said) - len(said.rstrip()))

    def _spans(self, around: Sequence[InlineElement], first: int, behind: int) -> list[tuple[int, int]]:
        """For each element the words that it stands around; never one that comes from another element."""
        starts = [each.start for each in around]
        mine: list[list[int]] = [[] for _ in around]
        owned = [0] * (behind - first)
        for i in range(first, behind):
            owner = _owning_element(self._words[i], around, starts)
            if owner is not None:
                mine[owner].append(i)
                owned[i - first] = 1
        counts = [0, *accumulate(owned)]
        return [_best_stretch(each, counts, first) for each in mine]

    def _gap(
        self, each: InlineElement, start: int, end: int, first: int, behind: int, borders: Sequence[tuple[int, int]]
    ) -> int:
        """Before the word that comes from the words behind it, or behind that from the words before it if there is
        none, or if it touches that one only, as a note's number does."""
        if each.end <= start:
            return first
        if each.start >= end:
            return behind
        following = bisect_left(self._starts, (each.end, -1))
        before = bisect_right(self._ends, (each.start, len(self._words))) - 1
        follows = before >= 0 and first <= self._ends[before][1] < behind
        if follows and each.spaced == (False, True):
            place = self._ends[before][1] + 1
        elif following < len(self._starts) and first <= self._starts[following][1] < behind:
            place = self._starts[following][1]
        elif follows:
            place = self._ends[before][1] + 1
        else:
            place = first + round((behind - first) * max(0, each.start - start) / (end - start))
        around = bisect_right(borders, (place, place)) - 1
        return borders[around][0] if around >= 0 and place < borders[around][1] else place


def _owning_element(word: AlignedSpan, around: Sequence[InlineElement], starts: Sequence[int]) -> int | None:
    """The element that most of what the word comes from stands in; what stands in none counts for nothing."""
    best, most = None, 0
    place = bisect_left(starts, word.source_end) - 1
    while word.aligned and place >= 0 and around[place].end > word.source_start:
        shared = min(word.source_end, around[place].end) - max(word.source_start, around[place].start)
        if shared > most:
            best, most = place, shared
        place -= 1
    return best


def _best_stretch(mine: Sequence[int], counts: Sequence[int], first: int) -> tuple[int, int]:
    """One stretch with as many of its own words and as few strangers as possible; counts: of the words before each
    that belong to some element."""
    if not mine:
        return 0, 0
    start, score = mine[0], 1.0
    best, most = (start, start + 1), score
    for last, here in pairwise(mine):
        score -= _FOREIGN_WORD_COST * (here - last - 1)
        if score <= 0 or counts[here - first] > counts[last + 1 - first]:
            start, score = here, 0.0
        score += 1
        if score > most:
            best, most = (start, here + 1), score
    return best


def _collapsed_at(each: InlineElement, place: int) -> PlacedElement:
    return PlacedElement(each, place, place, tuple(_collapsed_at(inner, place) for inner in each.within))
