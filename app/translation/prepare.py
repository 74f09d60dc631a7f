"""A text is prepared for a model: cut into sentences that fit it, and cleared of what it cannot read.

What stands between the sentences (layout) and inside them (marks: emoji, wide spaces; links that the model cannot
copy) is kept with its place, to be put around and into the translations.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from app.engine.interface import AlignedWord, TranslationDetail, TranslationOptions, TranslationRequest, Usage
from app.text.glossary_matching import Term, TermMatcher
from app.text.layout_characters import (
    BREAK,
    CLOSING_PUNCTUATION,
    JOINERS,
    MARK,
    SOFT_HYPHEN,
    UNUSUAL,
    WIDE_SPACE,
    ZERO_WIDTH,
    has_letters,
    is_spelling_joiner,
    is_unspaced_script,
)
from app.text.protected_spans import ProtectedSpan, may_hold_protected, number_spans, protected_spans, without_protected
from app.text.sentence_splitting import one_plain_sentence, sentence_spans

_FINAL_PUNCTUATION = ".!?…。！？"
_LIST_MARKER = re.compile(r"(?:[-–—*•·‣>#+]+|\(?\d{1,3}[.)]|[a-zA-Z]\))\s")


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """spans: of the pieces in the text, in order, none of them empty. language: the text's."""

    text: str
    language: str
    spans: tuple[tuple[int, int], ...]

    @property
    def pieces(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]

    @property
    def between(self) -> list[str]:
        """What stands before each piece, and after the last one."""
        starts = [0, *(end for _, end in self.spans)]
        ends = [*(start for start, _ in self.spans), len(self.text)]
        return [self.text[start:end] for start, end in zip(starts, ends, strict=True)]


def segmented(text: str, language: str, *, split: bool = True) -> SegmentedText:
    """split: whether lines are cut into sentences."""
    if one_plain_sentence(text):
        return SegmentedText(text, language, ((0, len(text)),))
    spans = []
    for line_start, line_end in _line_spans(text):
        line = text[line_start:line_end]
        inner = sentence_spans(line, language) if split else [(0, len(line))]
        for start, end in _split_at_marks(line, inner) if split and UNUSUAL.search(line) else inner:
            start, end = trimmed_span(text, line_start + start, line_start + end)
            if start < end and is_translatable(text[start:end]):
                spans.append((start, end))
    return SegmentedText(text, language, tuple(spans))


def _split_at_marks(line: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Also where an emoji or a wide space follows the end of a sentence: the splitter knows plain spaces alone."""
    for start, end in spans:
        for mark in MARK.finditer(line, start, end):
            if mark[0] != " " and mark.start() > start and line[mark.start() - 1] in _FINAL_PUNCTUATION:
                yield start, mark.end()
                start = mark.end()
        if start < end:
            yield start, end


def trimmed_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The part between without what stands around its words."""
    while start < end:
        if text[start].isalpha() and text[start + 1 : start + 2] != ")":  # nearly always
            break
        mark = MARK.match(text, start, end) or _LIST_MARKER.match(text, start, end)
        if mark is None:
            break
        start = mark.end()
    if start == end or not MARK.match(text, end - 1, end):
        return start, end
    return start, next((mark.start() for mark in MARK.finditer(text, start, end) if mark.end() == end), end)


def is_translatable(piece: str) -> bool:
    return has_letters(piece) and (not may_hold_protected(piece) or has_letters(without_protected(piece)))


def target_spaces(layout: SegmentedText, target_language: str) -> Iterator[str]:
    """What stands before each piece in the translation, and after the last one: what stands there in the source. Only
    a single space between sentences comes or goes where one of the two languages sets spaces and the other does not."""
    between = layout.between
    yield between[0]
    reads_none, sets_none = _language_without_spaces(layout.language), _language_without_spaces(target_language)
    for (_, end), each in zip(layout.spans[:-1], between[1:-1], strict=True):
        if each == "" and reads_none and not sets_none and is_unspaced_script(layout.text[end - 1]):
            yield " "
        elif each == " " and sets_none and not reads_none:
            yield ""
        else:
            yield each
    if layout.spans:
        yield between[-1]


def _language_without_spaces(language: str) -> bool:
    return language.lower().partition("-")[0] in ("zh", "ja")


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in BREAK.finditer(text):
        yield start, found.start()
        start = found.end()
    yield start, len(text)


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
    def of(cls, source: str, out: Sequence[ProtectedSpan] = ()) -> Sentence:
        """out: what is taken out beside marks; in order, none within another."""
        if not out and not UNUSUAL.search(source):
            return cls(source, source)
        clean: list[str] = []
        marks: list[Mark] = []
        at = length = 0
        for start, end, text in _masked_spans(source, out):
            clean.append(source[at:start])
            length += start - at
            gap = _gap_text(source, start, end, text)
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


def _masked_spans(source: str, out: Sequence[ProtectedSpan]) -> Iterator[tuple[int, int, str]]:
    """Start, end and text of each run of marks and of what is `out`: neighbours are one."""
    if not out and not UNUSUAL.search(source):
        return
    marks = list(_mark_spans(source))
    if not out:  # a link or a placeholder with a mark within is taken out as a whole
        out = [each for each in protected_spans(source) if UNUSUAL.search(source, each.start, each.end)]
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


def _mark_spans(source: str) -> Iterator[tuple[int, int]]:
    for found in MARK.finditer(source):
        if found[0] not in JOINERS or not is_spelling_joiner(source, found.start()):
            yield found.span()
    at = source.find(SOFT_HYPHEN)
    while at >= 0:
        yield at, at + 1
        at = source.find(SOFT_HYPHEN, at + 1)


def _with_brackets(source: str, kept: ProtectedSpan) -> tuple[int, int]:
    around = source[max(0, kept.start - 1) : kept.start] + source[kept.end : kept.end + 1]
    wider = around in _BRACKETS
    return kept.start - wider, kept.end + wider


def _gap_text(source: str, start: int, end: int, text: str) -> str:
    """What the model reads instead: a space, where one parts words."""
    at_edge = start == 0 or end == len(source) or (source[end] in CLOSING_PUNCTUATION and not source[end - 1].isspace())
    return "" if at_edge or not text or ZERO_WIDTH.fullmatch(text) else " "


_CLAUSE_END = re.compile(r"[,;:–—…)\]”»](?=\s)|[，、；：。！？）」』،؛]")
_SENTENCE_END = re.compile(r"[.!?…][\"'”»)\]]*\s")
_FILL = 0.9  # of the room: a part may have more tokens for its length than the whole
_GLUE = "\u200d\ufe0e\ufe0f\u20e3"
Span = tuple[int, int]
Count = Callable[[Sequence[str]], Awaitable[list[int]]]


def surely_fits(layout: SegmentedText, room: int) -> bool:
    """Whether every piece does by its bytes alone; a character has four at most."""
    return all(
        end - start < room // 4 or len(layout.text[start:end].encode()) < room - 2 for start, end in layout.spans
    )


async def split_to_fit(layout: SegmentedText, room: int, count: Count, *, certain: bool = False) -> SegmentedText:
    """The same text in pieces that all fit. count: the tokens of each text. certain: whether even pieces are counted
    whose bytes are fewer than the room: there may be more tokens than bytes only where the tokenizer rewrites signs."""
    if not certain and surely_fits(layout, room):
        return layout
    done: list[Span] = []
    open_spans = list(layout.spans)
    while open_spans:
        fits = [not certain and len(layout.text[start:end].encode()) < room - 2 for start, end in open_spans]
        doubtful = [span for span, fit in zip(open_spans, fits, strict=True) if not fit]
        texts = [Sentence.of(layout.text[start:end]).clean for start, end in doubtful]
        counts = iter(await count(texts) if texts else ())
        parts: list[Span] = []
        for (start, end), fit in zip(open_spans, fits, strict=True):
            tokens = 0 if fit else next(counts)
            if tokens <= room or end - start == 1:
                done.append((start, end))
            else:
                size = max(1, min(int((end - start) * room * _FILL / tokens), (end - start + 1) // 2))
                parts += _sentence_parts(layout.text, start, end) or _cut_spans(layout.text, start, end, size)
        open_spans = parts
    return SegmentedText(layout.text, layout.language, tuple(sorted(done)))


def split_in_half(text: str, language: str) -> SegmentedText:
    """A sentence as two; as it is where nothing of it can be parted."""
    return SegmentedText(text, language, tuple(_cut_spans(text, 0, len(text), (len(text) + 1) // 2)))


def keeps_spaces(source: str, text: str) -> bool:
    """Whether a translation of a sentence has its wide and double spaces, in their order, and none at its edges."""
    if not UNUSUAL.search(source):
        return True
    return text == text.strip() and WIDE_SPACE.findall(text) == WIDE_SPACE.findall(source)


def split_at_wide_spaces(text: str, language: str) -> SegmentedText | None:
    """A sentence in the parts between its wide and double spaces, or else between its emoji; None without any."""
    inside = {at for each in protected_spans(text) for at in range(each.start, each.end)}
    cuts = [found.span() for found in WIDE_SPACE.finditer(text) if found.start() not in inside]
    cuts = cuts or [found.span() for found in MARK.finditer(text) if found[0] != " " and found.start() not in inside]
    starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]
    spans = [trimmed_span(text, start, end) for start, end in zip(starts, ends, strict=True)]
    spans = [(start, end) for start, end in spans if start < end and is_translatable(text[start:end])]
    return SegmentedText(text, language, tuple(spans)) if cuts else None


def _sentence_parts(text: str, start: int, end: int) -> list[Span]:
    """The sentences of what was too long to be one, for instance where all letters are small; none where it is one."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text, start, end) if found.end() < end]
    spans = [trimmed_span(text, *span) for span in zip([start, *ends], [*ends, end], strict=True)] if ends else []
    return [span for span in spans if span[0] < span[1] and is_translatable(text[span[0] : span[1]])]


def _cut_spans(text: str, start: int, end: int, size: int) -> list[Span]:
    """Spans of at most about so many characters, without what stands around their words."""
    spans = []
    links = [(start + each.start, start + each.end) for each in protected_spans(text[start:end])]
    while start < end:
        stop = end if end - start <= size else _best_cut(text, start, start + size)
        for first, last in links:  # of half a link nobody would know that it is one
            if first < stop < last:
                stop = first if first > start else last
        span = trimmed_span(text, start, stop)
        if span[0] < span[1] and is_translatable(text[span[0] : span[1]]):
            spans.append(span)
        start = stop
    return spans


def _best_cut(text: str, start: int, most: int) -> int:
    """Where to end a part that begins at `start` and ends at `most` at the latest."""
    least = start + (most - start) // 2
    clauses = [found.end() for found in _CLAUSE_END.finditer(text, least, most)]
    if clauses:
        return clauses[-1]
    space = text.rfind(" ", least, most)
    if space > start:
        return space + 1
    at = most
    while at > start + 1 and (text[at] in _GLUE or text[at - 1] in _GLUE or unicodedata.combining(text[at])):
        at -= 1
    return at


_ALIGNMENT: frozenset[TranslationDetail] = frozenset({"alignment"})
_ALIGNMENT_AND_TOKENS: frozenset[TranslationDetail] = frozenset({"alignment", "tokens"})


@dataclass(frozen=True, slots=True)
class PreparedSentence:
    """A sentence, what the engine is asked for it, and what the translation has to hold."""

    sentence: Sentence
    job: TranslationRequest
    kept: tuple[ProtectedSpan, ...]
    numbers: tuple[ProtectedSpan, ...]
    terms: tuple[Term, ...]
    glossary: TermMatcher

    @classmethod
    def of(cls, sentence: Sentence, options: TranslationOptions, glossary: TermMatcher) -> PreparedSentence:
        clean = sentence.clean
        if not glossary and not sentence.marks and one_plain_sentence(clean):
            return cls(sentence, TranslationRequest(clean, options), (), (), (), glossary)
        kept = tuple(protected_spans(clean))
        inside = {at for each in kept for at in range(each.start, each.end)}
        terms = tuple(term for term in glossary.find(clean) if term.start not in inside) if glossary else ()
        wants = _ALIGNMENT_AND_TOKENS if terms else _ALIGNMENT if sentence.shown_marks else frozenset()
        if not wants <= options.wants:
            options = replace(options, wants=options.wants | wants)
        covered = [*kept, *(ProtectedSpan(term.start, term.end, "") for term in terms)] if terms else kept
        numbers = tuple(number_spans(clean, covered))
        return cls(sentence, TranslationRequest(clean, options), kept, numbers, terms, glossary)

    @property
    def plain(self) -> bool:
        """Whether its translation is right as it comes."""
        return not (self.sentence.shown_marks or self.kept or self.numbers or self.terms)

    @property
    def bound(self) -> TranslationRequest:
        """The same, of a model that is made to write the terms."""
        options = replace(self.job.options, alternatives=0)
        return TranslationRequest(self.job.text, options, tuple(dict.fromkeys(term.forms for term in self.terms)))

    def without_links(self) -> PreparedSentence:
        source = self.sentence.source
        return PreparedSentence.of(Sentence.of(source, protected_spans(source)), self.job.options, self.glossary)


def usage_sum(first: Usage, second: Usage) -> Usage:
    return replace(
        first,
        read_tokens=first.read_tokens + second.read_tokens,
        new_tokens=first.new_tokens + second.new_tokens,
        total_s=first.total_s + second.total_s,
    )
