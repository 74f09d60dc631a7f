"""Places the inline elements of a passage in its translation: around the words that are aligned with the words of the
element, and nested as in the passage."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from operator import attrgetter, itemgetter

from app.text.html_passages import InlineElement

_NOWHERE = -1
_start = attrgetter("start")
_UNSPACED_SCRIPTS = r"\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED_SCRIPTS}]|[^\s{_UNSPACED_SCRIPTS}]+")
_PUNCTUATION = re.compile(r"[^\w\s]+")
_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_FOREIGN_WORD_COST = 0.5  # penalty for enclosing a foreign word; an own word scores 1


@dataclass(frozen=True, slots=True)
class AlignedSpan:
    """A word of the translation and its aligned span source_start..source_end of the source; -1, -1 if unknown."""

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
    """All words of `target` in order, each with its aligned span of `source`. Without an alignment, words at the same
    relative position are aligned. A verbatim element kept exactly is one word."""
    kept = _verbatim_words(source, target, verbatim)
    valid = list(_valid_alignment(source, target, alignment or ()))
    words, held = list(kept), {at for word in kept for at in range(word.source_start, word.source_end)}
    for part in (part for word in valid for part in _word_parts(source, target, word)):
        place = bisect_right(kept, part.end - 1, key=_start) - 1
        if place < 0 or kept[place].end <= part.start:
            words.append(AlignedSpan(part.start, part.end) if part.source_start in held else part)
    between, last_end = list[AlignedSpan](), 0
    for word in sorted([*words, AlignedSpan(len(target), len(target))], key=_start):
        between += [AlignedSpan(*match.span()) for match in _WORD.finditer(target, last_end, word.start)]
        last_end = word.end
    words = sorted(words + between, key=_start)
    return words if valid else _linearly_aligned(source, target, words, verbatim)


def _verbatim_words(source: str, target: str, verbatim: Sequence[InlineElement]) -> list[AlignedSpan]:
    """Equal elements are matched in source order, each with the place that is nearest to its own, as long as enough
    places are left for those after it."""
    shown_of = [source[element.start : element.end].strip() for element in verbatim]
    left, places, nexts = Counter(shown_of), dict[str, list[int]](), Counter[str]()
    words: list[AlignedSpan] = []
    for element, shown in zip(verbatim, shown_of, strict=True):
        starts = places[shown] = places.get(shown) or list(_places(shown, target))
        left[shown] -= 1
        read = source.index(shown, element.start)
        expected = read * len(target) / len(source)
        at = nexts[shown]
        while at + 1 < len(starts) - left[shown] and abs(starts[at + 1] - expected) <= abs(starts[at] - expected):
            at += 1
        if at < len(starts):
            words.append(AlignedSpan(starts[at], starts[at] + len(shown), read, read + len(shown)))
        nexts[shown] = at + 1
    words.sort(key=_start)
    return [word for i, word in enumerate(words) if not i or words[i - 1].end <= word.start]


def _places(shown: str, text: str) -> Iterator[int]:
    """Where it stands in a text and cuts no word."""
    start = text.find(shown)
    while start >= 0:
        if not _cuts_a_word(text, start, start + len(shown)):
            yield start
        start = text.find(shown, start + 1)


def _cuts_a_word(text: str, start: int, end: int) -> bool:
    return (text[start - 1 : start].isalnum() and text[start].isalnum()) or (
        text[end - 1].isalnum() and text[end : end + 1].isalnum()
    )


def _valid_alignment(source: str, target: str, alignment: Sequence[AlignedSpan]) -> Iterator[AlignedSpan]:
    """Drops overlapping words, and spans outside of the two texts."""
    last_end = 0
    for word in sorted(alignment, key=_start):
        in_target = last_end <= word.start < word.end <= len(target)
        if in_target and 0 <= word.source_start < word.source_end <= len(source):
            last_end = word.end
            yield word


def _word_parts(source: str, target: str, word: AlignedSpan) -> Iterator[AlignedSpan]:
    """Splits a word from its punctuation, which is aligned with the punctuation of the source word if there is any.
    Punctuation that a model aligns with a word is aligned with the punctuation after that word."""
    parts = _punctuation_parts(target, word.start, word.end)
    source_parts = _punctuation_parts(source, word.source_start, word.source_end)
    if parts is None and source_parts is not None:
        after = _PUNCTUATION.match(source, word.source_end)
        yield AlignedSpan(word.start, word.end, *(after.span() if after else ()))
        return
    if parts is None or source_parts is None:
        yield word
        return
    for (start, end), (source_start, source_end) in zip(parts, source_parts, strict=True):
        if start < end and source_start < source_end:
            yield AlignedSpan(start, end, source_start, source_end)
        elif start < end:
            yield AlignedSpan(start, end)


def _punctuation_parts(text: str, start: int, end: int) -> list[tuple[int, int]] | None:
    """Spans of leading punctuation, word and trailing punctuation, without whitespace; None without a word."""
    core = _CORE.search(text, start, end)
    if core is None:
        return None
    before, behind = text[start : core.start()], text[core.end() : end]
    return [
        (start + len(before) - len(before.lstrip()), core.start()),
        core.span(),
        (core.end(), end - (len(behind) - len(behind.rstrip()))),
    ]


def _linearly_aligned(
    source: str, target: str, words: list[AlignedSpan], verbatim: Sequence[InlineElement]
) -> list[AlignedSpan]:
    """No word is taken for a verbatim element, which would replace it."""
    for element in verbatim:
        source = source[: element.start] + " " * (element.end - element.start) + source[element.end :]
    spans = [match.span() for match in _WORD.finditer(source)]
    if not spans:
        return words
    aligned: list[AlignedSpan] = []
    for word in words:
        if word.aligned:
            aligned.append(word)
        else:
            middle = (word.start + word.end) / 2 / len(target) * len(source)
            span = spans[max(0, bisect_right(spans, middle, key=itemgetter(0)) - 1)]
            aligned += _word_parts(source, target, AlignedSpan(word.start, word.end, *span))
    return aligned


@dataclass(frozen=True, slots=True)
class PlacedElement:
    """An inline element around words `first` to `behind` - 1, or before word `first` if there are none."""

    inline: InlineElement
    first: int
    behind: int
    within: tuple[PlacedElement, ...] = ()


class TagPlacement:
    """Places the elements of `text` in `words`, its translation. Ranges of words are [first, behind)."""

    def __init__(self, text: str, words: Sequence[AlignedSpan]) -> None:
        self._text, self._words = text, words
        aligned = [(word, i) for i, word in enumerate(words) if word.aligned]
        self._starts = sorted((word.source_start, i) for word, i in aligned)
        self._ends = sorted((word.source_end, i) for word, i in aligned)

    def placed(self, inline: Sequence[InlineElement]) -> tuple[PlacedElement, ...]:
        return self._placed_within(inline, 0, len(self._text), 0, len(self._words))

    def _placed_within(
        self, inline: Sequence[InlineElement], start: int, end: int, first: int, behind: int
    ) -> tuple[PlacedElement, ...]:
        """Places the elements of text[start:end] around the words [first, behind). Siblings follow their words' order,
        except siblings that reach into another passage."""
        if not inline:
            return ()
        start, end = self._trimmed(start, end)
        before, last = [], []
        if inline[0].from_start:
            element, inline = inline[0], inline[1:]
            border = behind if element.end >= end else self._border(element, range(first, behind), 1)
            before = [self._placed(element, first, border)]
            start, first = max(start, element.end), border
        if inline and inline[-1].to_end:
            element, inline = inline[-1], inline[:-1]
            border = first if element.start <= start else self._border(element, range(behind - 1, first - 1, -1), 0)
            last = [self._placed(element, border, behind)]
            end, behind = min(end, element.start), border
        start, end = self._trimmed(start, end)
        return (*before, *self._placed_siblings(inline, start, end, first, behind), *last)

    def _placed(self, element: InlineElement, first: int, behind: int) -> PlacedElement:
        within = self._placed_within(element.within, element.start, element.end, first, behind)
        return PlacedElement(element, first, behind, within)

    def _border(self, element: InlineElement, indices: range, offset: int) -> int:
        """The border between words that best separates the words of `element`, which begin at one end of `indices`,
        from the words behind them. offset: 1 if `indices` ascends, 0 if it descends."""
        border, best, score = indices.start + 1 - offset, 0.0, 0.0
        for i in indices:
            word = self._words[i]
            own = word.aligned and word.source_start < element.end and element.start < word.source_end
            score += 1.0 if own else -1.0 if word.aligned else -_FOREIGN_WORD_COST
            if score >= best:
                border, best = i + offset, score
        return border

    def _placed_siblings(
        self, inline: Sequence[InlineElement], start: int, end: int, first: int, behind: int
    ) -> list[PlacedElement]:
        around = [element for element in inline if self._text[element.start : element.end].strip()]
        if len(around) == 1 and around[0].part == "element" and around[0].start <= start and end <= around[0].end:
            spans = [(first, behind)]
        else:
            spans = self._word_ranges(around, first, behind)
        taken = {id(element): span for element, span in zip(around, spans, strict=True) if span[0] < span[1]}
        ranges = sorted(taken.values())
        placed = [
            self._placed(element, *taken[id(element)])
            if id(element) in taken
            else _collapsed_at(element, self._gap(element, start, end, first, behind, ranges))
            for element in inline
        ]
        return sorted(placed, key=lambda element: (element.first, element.behind))

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        part = self._text[start:end]
        return start + len(part) - len(part.lstrip()), end - (len(part) - len(part.rstrip()))

    def _word_ranges(self, around: Sequence[InlineElement], first: int, behind: int) -> list[tuple[int, int]]:
        """The range of words that each element encloses; a range contains no word that belongs to another element."""
        words_of: list[list[int]] = [[] for _ in around]
        owned = [0] * (behind - first)
        # Of each source word once: many words of the translation may be aligned with one that spans many elements.
        owner_of = cache(lambda source_start, source_end: _owning_element(source_start, source_end, around))
        for i in range(first, behind):
            word = self._words[i]
            owner = owner_of(word.source_start, word.source_end) if word.aligned else None
            if owner is not None:
                words_of[owner].append(i)
                owned[i - first] = 1
        counts = [0, *accumulate(owned)]
        return [_best_stretch(indices, counts, first) for indices in words_of]

    def _gap(
        self, element: InlineElement, start: int, end: int, first: int, behind: int, ranges: Sequence[tuple[int, int]]
    ) -> int:
        """Position of an element without words, such as an image: before the word that is aligned with the text behind
        the element. Behind the word that is aligned with the text before it, if the text behind is not aligned, or if
        only the text before touches the element, as with the number of a footnote."""
        if element.end <= start:
            return first
        if element.start >= end:
            return behind
        following = bisect_left(self._starts, (element.end, -1))
        before = bisect_right(self._ends, (element.start, len(self._words))) - 1
        follows = before >= 0 and first <= self._ends[before][1] < behind
        precedes = following < len(self._starts) and first <= self._starts[following][1] < behind
        touches, touched = self._text[element.start - 1], self._text[element.end : element.end + 1]
        # a note also before a comma: Mann<sup>1</sup>,
        behind_word = not (touches.isspace() or touched.isalnum()) and (element.part == "mark" or touched.isspace())
        if follows and (behind_word or not precedes):
            place = self._ends[before][1] + 1
        elif precedes:
            place = self._starts[following][1]
        else:
            place = first + round((behind - first) * max(0, element.start - start) / (end - start))
        around = bisect_right(ranges, (place, place)) - 1
        return ranges[around][0] if around >= 0 and place < ranges[around][1] else place


def _owning_element(source_start: int, source_end: int, around: Sequence[InlineElement]) -> int | None:
    """The element that contains most of this span of the source; None if no element contains any. A verbatim element
    replaces its words, so that it has to contain half of the span: "Taste" of <kbd>Strg</kbd>-Taste is none of it."""
    owner, most = None, 0
    place = bisect_left(around, source_end, key=_start) - 1
    while place >= 0 and around[place].end > source_start:
        shared = min(source_end, around[place].end) - max(source_start, around[place].start)
        is_enough = around[place].part != "verbatim" or 2 * shared >= source_end - source_start
        if shared > most and is_enough:
            owner, most = place, shared
        place -= 1
    return owner


def _best_stretch(indices: Sequence[int], counts: Sequence[int], first: int) -> tuple[int, int]:
    """The range with most of one element's words (`indices`) and fewest words of no element; it contains no word of
    another element. counts[i]: how many of the first `i` words belong to an element."""
    if not indices:
        return 0, 0
    start, score = indices[0], 1.0
    stretch, best = (start, start + 1), score
    for last, here in pairwise(indices):
        score -= _FOREIGN_WORD_COST * (here - last - 1)
        if score <= 0 or counts[here - first] > counts[last + 1 - first]:
            start, score = here, 0.0
        score += 1
        if score > best:
            stretch, best = (start, here + 1), score
    return stretch


def _collapsed_at(element: InlineElement, place: int) -> PlacedElement:
    return PlacedElement(element, place, place, tuple(_collapsed_at(inner, place) for inner in element.within))
