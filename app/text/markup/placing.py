"""Where in a translation its inline elements go: around the words that come from theirs, and within each other as
they were."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from app.text.markup.passage import Inline
from app.text.markup.words import Word

_STRANGER = 0.5  # what a word that comes from elsewhere costs an element that would stand around it, its own bring 1


@dataclass(frozen=True, slots=True)
class Placed:
    """An inline element around the words `first` to `behind` - 1, or before word `first` if that is none."""

    inline: Inline
    first: int
    behind: int
    within: tuple[Placed, ...] = ()


class Placing:
    """text: of the passage. words: of its translation."""

    def __init__(self, text: str, words: Sequence[Word]) -> None:
        self._text, self._words = text, words
        told = [(each, i) for i, each in enumerate(words) if each.aligned]
        self._starts = sorted((each.source_start, i) for each, i in told)
        self._ends = sorted((each.source_end, i) for each, i in told)

    def placed(self, inline: Sequence[Inline]) -> tuple[Placed, ...]:
        return self._within(inline, 0, len(self._text), 0, len(self._words))

    def _within(self, inline: Sequence[Inline], start: int, end: int, first: int, behind: int) -> tuple[Placed, ...]:
        """Between `start` and `end` of the text, which became the words `first` to `behind` - 1. Elements beside each
        other may change places, as their words do; not those that reach into another passage."""
        if not inline:
            return ()
        start, end = self._trimmed(start, end)
        before, last = [], []
        if inline[0].from_start:
            each, inline = inline[0], inline[1:]
            border = behind if each.end >= end else self._split(each, range(first, behind), 1)
            before = [Placed(each, first, border, self._within(each.within, each.start, each.end, first, border))]
            start, first = max(start, each.end), border
        if inline and inline[-1].to_end:
            each, inline = inline[-1], inline[:-1]
            border = first if each.start <= start else self._split(each, range(behind - 1, first - 1, -1), 0)
            last = [Placed(each, border, behind, self._within(each.within, each.start, each.end, border, behind))]
            end, behind = min(end, each.start), border
        return (*before, *self._between(inline, *self._trimmed(start, end), first, behind), *last)

    def _split(self, each: Inline, way: range, offset: int) -> int:
        """How far from an edge on the words come from `each` rather than from elsewhere."""
        best, most, score = way.start + 1 - offset, 0.0, 0.0
        for i in way:
            word = self._words[i]
            own = word.aligned and word.source_start < each.end and each.start < word.source_end
            score += 1.0 if own else -1.0 if word.aligned else -_STRANGER
            if score >= most:
                best, most = i + offset, score
        return best

    def _between(self, inline: Sequence[Inline], start: int, end: int, first: int, behind: int) -> Iterator[Placed]:
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
                result.append(Placed(each, *span, self._within(each.within, each.start, each.end, *span)))
            else:
                result.append(_all_at(each, self._gap(each, start, end, first, behind, borders)))
        yield from sorted(result, key=lambda placed: (placed.first, placed.behind))

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        said = self._text[start:end]
        return start + len(said) - len(said.lstrip()), end - (len(said) - len(said.rstrip()))

    def _spans(self, around: Sequence[Inline], first: int, behind: int) -> list[tuple[int, int]]:
        """For each element the words that it stands around; never one that comes from another element."""
        starts = [each.start for each in around]
        mine: list[list[int]] = [[] for _ in around]
        owned = [0] * (behind - first)
        for i in range(first, behind):
            owner = _owner(self._words[i], around, starts)
            if owner is not None:
                mine[owner].append(i)
                owned[i - first] = 1
        counts = [0, *accumulate(owned)]
        return [_widest(each, counts, first) for each in mine]

    def _gap(
        self, each: Inline, start: int, end: int, first: int, behind: int, borders: Sequence[tuple[int, int]]
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
            place = first + round((behind - first) * (each.start - start) / (end - start))
        around = bisect_right(borders, (place, place)) - 1
        return borders[around][0] if around >= 0 and place < borders[around][1] else place


def _owner(word: Word, around: Sequence[Inline], starts: Sequence[int]) -> int | None:
    """The element that most of what the word comes from stands in; what stands in none counts for nothing."""
    best, most = None, 0
    place = bisect_left(starts, word.source_end) - 1
    while word.aligned and place >= 0 and around[place].end > word.source_start:
        shared = min(word.source_end, around[place].end) - max(word.source_start, around[place].start)
        if shared > most:
            best, most = place, shared
        place -= 1
    return best


def _widest(mine: Sequence[int], counts: Sequence[int], first: int) -> tuple[int, int]:
    """One stretch with as many of its own words and as few strangers as possible; counts: of the words before each
    that belong to some element."""
    if not mine:
        return 0, 0
    start, score = mine[0], 1.0
    best, most = (start, start + 1), score
    for last, here in pairwise(mine):
        score -= _STRANGER * (here - last - 1)
        if score <= 0 or counts[here - first] > counts[last + 1 - first]:
            start, score = here, 0.0
        score += 1
        if score > most:
            best, most = (start, here + 1), score
    return best


def _all_at(each: Inline, place: int) -> Placed:
    return Placed(each, place, place, tuple(_all_at(inner, place) for inner in each.within))
