"""Prepares a text for a model: splits it into sentences that fit the model, and removes characters that it cannot read.
Layout between sentences and marks within sentences (emoji, wide spaces, links that the model cannot copy) are recorded
with their positions, so that they can be restored in the translation."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from app.engine.interface import AlignedWord, FinishReason, TranslationDetail, TranslationOptions, TranslationRequest
from app.engine.output.notices import untrained_words
from app.text.capitals import in_capitals, without_capitals
from app.text.character_references import lost_separators, references
from app.text.glossary_matching import Term, TermMatcher, term_spans
from app.text.inline_markup import Markup, markup_of, unclosed_signs
from app.text.layout_characters import (
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
from app.text.line_breaks import breaks
from app.text.numbers import Number, numbers_in, surplus_numbers
from app.text.protected_spans import ProtectedSpan, may_hold_protected, protected_spans, without_protected
from app.text.sentence_splitting import sentence_spans
from app.text.text_blocks import cell_borders, untranslatable_blocks
from app.translation.slices import each_in_thread

Span = tuple[int, int]
CountTokens = Callable[[Sequence[str]], Awaitable[list[int]]]

_LETTERS = "A-Za-zÀ-ÖØ-öø-ɏА-я"
_PLAIN_SENTENCE = re.compile(rf"[{_LETTERS}][{_LETTERS} ,'’\-]*[.!?]?")
_FINAL_PUNCTUATION = ".!?…。！？"
_LIST_MARKER = re.compile(r"(?:[-–—*•·‣>#+]+|:|\(?\d{1,3}[.)]|[a-zA-Z]\)|\[[ xX]\]|\[\^[\w-]{1,20}\]:)\s")
_DIGIT = re.compile(r"\d")
_PAUSE = re.compile("[,;: ]*")
_BRACKETS = ("()", "[]", "<>", '""', "“”", "„“", "«»", "（）")
_CLAUSE_END = re.compile(r"[,;:–—…)\]”»](?=\s)|[，、；：。！？）」』،؛]")
_SENTENCE_END = re.compile(r"[.!?…][\"'”»)\]]*\s")
_FILL = 0.9  # of the model's limit, since a part may have more tokens per character than the whole
_SURPLUS_DIGITS = 4  # in the translation alone: it has lost its way between digits
_JOINER = "\u200d"
_GLUE = f"{_JOINER}\ufe0e\ufe0f\u20e3"
_LONGEST_CHARACTER = 32  # code points
_ALIGNMENT: frozenset[TranslationDetail] = frozenset({"alignment"})
_ALIGNMENT_AND_TOKENS: frozenset[TranslationDetail] = frozenset({"alignment", "tokens"})


def one_plain_sentence(text: str) -> bool:
    """A quick test: True only for one sentence without marks, links or digits; False also for rarer characters."""
    return _PLAIN_SENTENCE.fullmatch(text) is not None and text[-1] != " " and "  " not in text


# A text in pieces ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """A text as pieces to translate and the layout between them. Breaks (line ends, tabs, control characters, columns
    of spaces) always separate pieces. List markers, spaces and emoji at the edges of a piece are layout too. A text
    without letters, or with only links, placeholders and numbers, is not translated. spans: of the pieces, in order and
    not empty."""

    text: str
    language: str
    spans: tuple[Span, ...]

    @property
    def whole(self) -> bool:
        """Whether the text is a single piece without layout."""
        return self.spans == ((0, len(self.text)),)

    @property
    def pieces(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]

    def layout(self, target_language: str) -> list[str]:
        """The layout around the pieces: the source's, except spaces between sentences that only one language uses."""
        layout = [self.text[start:end] for start, end in _between(self.spans, 0, len(self.text))]
        source_unspaced, target_unspaced = _sets_no_spaces(self.language), _sets_no_spaces(target_language)
        if source_unspaced != target_unspaced:
            for number, (_, end) in enumerate(self.spans[:-1], 1):
                if source_unspaced and layout[number] == "" and is_unspaced_script(self.text[end - 1]):
                    layout[number] = " "
                elif target_unspaced and layout[number] == " ":
                    layout[number] = ""
        return layout


def _between(cuts: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """The parts of [start, end) before, between and after the cuts."""
    for cut_start, cut_end in cuts:
        yield start, cut_start
        start = cut_end
    yield start, end


def _sets_no_spaces(language: str) -> bool:
    return language.lower().partition("-")[0] in ("zh", "ja")


def segmented(text: str, language: str, *, split: bool = True) -> SegmentedText:
    """Splits a text into pieces. split: whether to split lines into sentences."""
    if one_plain_sentence(text):
        return SegmentedText(text, language, ((0, len(text)),))
    spans = []
    for line_start, line_end in _between(_cuts(text), 0, len(text)):
        line = text[line_start:line_end]
        inner = list(_outside_links(line, sentence_spans(line, language))) if split else [(0, len(line))]
        for start, end in _split_at_marks(line, inner) if split and UNUSUAL.search(line) else inner:
            spans += _words_in(text, line_start + start, line_start + end)
    return SegmentedText(text, language, tuple(spans))


def _cuts(text: str) -> list[Span]:
    """Spans that always separate pieces, in order and without overlaps."""
    breaks_in_text = [match.span() for match in breaks(text)]
    blocks, borders = untranslatable_blocks(text), list(cell_borders(text))
    if not blocks and not borders:
        return breaks_in_text
    cuts: list[Span] = []
    for start, end in sorted([*blocks, *borders, *breaks_in_text]):
        if not cuts or start >= cuts[-1][1]:
            cuts.append((start, end))
        elif end > cuts[-1][1]:
            cuts.append((cuts[-1][1], end))
    return cuts


def _outside_links(line: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Joins sentences that end within a link or behind the ! of an image."""
    links = [(own.opening[0], own.closing[1]) for own in markup_of(line) if line[own.closing[0]] == "]"]
    begins = number = 0
    for _, end in spans:
        while number < len(links) and links[number][1] <= end:
            number += 1
        if number == len(links) or links[number][0] >= end:
            yield begins, end
            begins = end


def _split_at_marks(line: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Also splits after an emoji or wide space after the end of a sentence: the splitter handles plain spaces."""
    for start, end in spans:
        for mark in MARK.finditer(line, start, end):
            if mark[0] != " " and mark.start() > start and line[mark.start() - 1] in _FINAL_PUNCTUATION:
                yield start, mark.end()
                start = mark.end()
        if start < end:
            yield start, end


def _words_in(text: str, start: int, end: int) -> list[Span]:
    """The span without layout at its edges; [] if nothing in it is translatable."""
    while start < end:
        if text[start].isalpha() and text[start + 1 : start + 2] != ")":  # the common case
            break
        mark = MARK.match(text, start, end) or _LIST_MARKER.match(text, start, end)
        if mark is None:
            break
        start = mark.end()
    if start < end and MARK.match(text, end - 1, end):
        end = next((mark.start() for mark in MARK.finditer(text, start, end) if mark.end() == end), end)
    begins, ends = unclosed_signs(text[start:end])
    start, end = start + begins, end - ends
    piece = text[start:end]
    translatable = has_letters(piece) and (not may_hold_protected(piece) or has_letters(without_protected(piece)))
    return [(start, end)] if translatable else []


# Pieces that fit the model -------------------------------------------------------------------------------------


async def split_to_fit(
    text: SegmentedText, room: int, count_tokens: CountTokens, *, certain: bool = False
) -> SegmentedText:
    """Splits pieces to `room` tokens. certain: count even if bytes < room: tokenizers may expand characters."""
    done: list[Span] = []
    open_spans = list(text.spans)
    while open_spans:
        fits = [not certain and len(text.text[start:end].encode()) < room - 2 for start, end in open_spans]
        done += [span for span, fit in zip(open_spans, fits, strict=True) if fit]
        uncertain = [span for span, fit in zip(open_spans, fits, strict=True) if not fit]
        cleared = await each_in_thread(
            uncertain, _lengths(uncertain), lambda span: _without_marks(text.text[slice(*span)])[0]
        )
        counts = await count_tokens(cleared) if cleared else []
        counted = list(zip(uncertain, counts, strict=True))
        done += [(start, end) for (start, end), tokens in counted if tokens <= room or end - start == 1]
        large = [(span, tokens) for span, tokens in counted if tokens > room and span[1] - span[0] > 1]
        parts = await each_in_thread(
            large, _lengths([span for span, _ in large]), lambda each: _parts_to_fit(text.text, *each, room)
        )
        open_spans = [span for own in parts for span in own]
    return replace(text, spans=tuple(sorted(done)))


def _lengths(spans: Sequence[Span]) -> list[int]:
    return [end - start for start, end in spans]


def _parts_to_fit(text: str, span: Span, tokens: int, room: int) -> list[Span]:
    """Parts of a span of too many tokens, of at most half its length; they may have too many again."""
    start, end = span
    size = max(1, min(int((end - start) * room * _FILL / tokens), (end - start + 1) // 2))
    return _sentence_parts(text, start, end) or cut_spans(text, start, end, size)


def split_in_half(sentence: str, language: str) -> SegmentedText:
    """A sentence in two pieces, or in one if it cannot be split."""
    return SegmentedText(sentence, language, tuple(cut_spans(sentence, 0, len(sentence), (len(sentence) + 1) // 2)))


def keeps_spaces(source: str, translation: str) -> bool:
    """Whether the translation has the wide and double spaces of its source in the same order, and none at its edges."""
    if not UNUSUAL.search(source):
        return True
    return translation == translation.strip() and WIDE_SPACE.findall(translation) == WIDE_SPACE.findall(source)


def split_at_wide_spaces(sentence: str, language: str) -> SegmentedText | None:
    """The parts of a sentence between its wide and double spaces, or else between its emoji; None without either."""
    inside = {at for span in protected_spans(sentence) for at in range(span.start, span.end)}
    cuts = [match.span() for match in WIDE_SPACE.finditer(sentence) if match.start() not in inside]
    cuts = cuts or [m.span() for m in MARK.finditer(sentence) if m[0] != " " and m.start() not in inside]
    if not cuts:
        return None
    spans = [span for part in _between(cuts, 0, len(sentence)) for span in _words_in(sentence, *part)]
    return SegmentedText(sentence, language, tuple(spans))


def split_where_damaged(
    sentence: PreparedSentence, translation: str, finish_reason: FinishReason
) -> SegmentedText | None:
    """The parts of a sentence to translate separately because its translation is damaged: cut at the dashes and & signs
    if the translation lost one, else cut around the numbers if the translation repeats itself or has numbers that the
    sentence lacks. None for a translation without such damage."""
    source, language = sentence.source, sentence.request.options.source_language
    cuts = [(start, end) for start, end, _ in lost_separators(source, translation)]
    if not cuts and sentence.numbers:
        present = sentence.numbers_of(translation)
        surplus = sum(len(number.key) for number in surplus_numbers(sentence.numbers, present))
        if surplus >= _SURPLUS_DIGITS or finish_reason == "repetition":
            links = [(span.start, span.end) for span in protected_spans(source)]
            cuts = sorted([*links, *((number.start, number.end) for number in numbers_in(source, links))])
            pauses = [_PAUSE.match(source, end) for _, end in cuts]
            cuts = [(start, pause.end() if pause else end) for (start, end), pause in zip(cuts, pauses, strict=True)]
    spans = [span for part in _between(cuts, 0, len(source)) for span in _words_in(source, *part)] if cuts else []
    return SegmentedText(source, language, tuple(spans)) if spans and spans != [(0, len(source))] else None


def _sentence_parts(text: str, start: int, end: int) -> list[Span]:
    """Sentences that the splitter missed, such as all-lowercase ones; [] if there is only one."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, end) if match.end() < end]
    parts = _between(((at, at) for at in ends), start, end) if ends else ()
    return [span for part in parts for span in _words_in(text, *part)]


def cut_spans(text: str, start: int, end: int, size: int) -> list[Span]:
    """Parts of about `size` characters: cut after a clause, else between words or characters, never within a link."""
    spans = []
    links = deque((start + link.start, start + link.end) for link in protected_spans(text[start:end]))
    while start < end:
        stop = end if end - start <= size else _best_cut(text, start, start + size)
        while links and links[0][1] <= start:
            links.popleft()
        for first, last in links:
            if first >= stop:
                break
            if stop < last:
                stop = first if first > start else last
        spans += _words_in(text, start, stop)
        start = stop
    return spans


def _best_cut(text: str, start: int, most: int) -> int:
    """The best end of a part from `start`, at most `most`."""
    least = start + (most - start) // 2
    clauses = [match.end() for match in _CLAUSE_END.finditer(text, least, most)]
    if clauses:
        return clauses[-1]
    space = text.rfind(" ", least, most)
    if space > start:
        return space + 1
    # Not within a character of several code points; of more than 32, which no writing needs, anywhere.
    for at in range(most, max(start, most - _LONGEST_CHARACTER), -1):
        if text[at] not in _GLUE and text[at - 1] != _JOINER and not unicodedata.combining(text[at]):
            return at
    return most


# A sentence without its marks ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark that the model does not read. text: the mark. at: its position in the model's input. gap: the text that
    the model's input has in its place. length: of the mark in the source."""

    at: int
    text: str
    gap: str
    length: int


@dataclass(frozen=True, slots=True)
class PreparedSentence:
    """A sentence as in the text (source) and as the model reads it (the request's text), with the elements that its
    translation must contain. protected: links and placeholders in the request's text. capitals: whether the source is
    in capital letters, which the request's text is not. markup: of the source."""

    source: str
    marks: tuple[Mark, ...]
    request: TranslationRequest
    matcher: TermMatcher | None
    protected: tuple[ProtectedSpan, ...] = ()
    numbers: tuple[Number, ...] = ()
    terms: tuple[Term, ...] = ()
    capitals: bool = False
    markup: tuple[Markup, ...] = ()

    @classmethod
    def of(
        cls,
        source: str,
        options: TranslationOptions,
        matcher: TermMatcher | None,
        taken_out: Sequence[ProtectedSpan] = (),
    ) -> PreparedSentence:
        """Prepares a sentence. taken_out: links to remove from the model's input."""
        markup = tuple(markup_of(source))
        clean, marks = _without_marks(source, taken_out, markup)
        capitals = not options.prefix and in_capitals(clean)
        if matcher is None and not marks and not capitals and one_plain_sentence(clean):
            return cls(source, (), TranslationRequest(clean, options), matcher)
        protected = tuple(protected_spans(clean))
        inside = {at for span in protected for at in range(span.start, span.end)}
        terms = tuple(term for term in matcher.find(clean) if term.start not in inside) if matcher else ()
        links = [(span.start, span.end) for span in protected]
        if terms and _DIGIT.search(clean):  # the unit of a number is kept with it
            units = {at for number in numbers_in(clean, links) for at in range(number.core[1], number.end)}
            terms = tuple(t for t in terms if t.start not in units or t.forms[0] != clean[t.start : t.end])
        covered = links + [(term.start, term.end) for term in terms]
        placed = bool(markup) or any(mark.text for mark in marks)
        wants = _ALIGNMENT_AND_TOKENS if terms else _ALIGNMENT if placed else frozenset()
        if not wants <= options.wants:
            options = replace(options, wants=options.wants | wants)
        numbers = tuple(numbers_in(clean, covered))
        request = TranslationRequest(without_capitals(clean, options.source_language) if capitals else clean, options)
        return cls(source, marks, request, matcher, protected, numbers, terms, capitals, markup)

    def without_links(self) -> PreparedSentence:
        """The same sentence with its links removed like marks."""
        return PreparedSentence.of(self.source, self.request.options, self.matcher, protected_spans(self.source))

    @property
    def clean(self) -> str:
        return self.request.text

    @property
    def shown_marks(self) -> list[Mark]:
        """Marks that the translation must contain."""
        return [mark for mark in self.marks if mark.text]

    @property
    def plain(self) -> bool:
        """Whether the translation needs no repair."""
        repaired = self.protected or self.numbers or self.terms or self.capitals or self.markup
        return not (repaired or (self.marks and self.shown_marks))

    def numbers_of(self, translation: str) -> list[Number]:
        """The numbers of its translation, besides those within links and terms."""
        keys = {span.key for span in self.protected}
        links = [(span.start, span.end) for span in protected_spans(translation) if span.key in keys] if keys else []
        return numbers_in(
            translation, [*links, *(span for t in self.terms for span in term_spans(translation, t.forms))]
        )

    @property
    def constrained_request(self) -> TranslationRequest:
        """The request with required terms."""
        options = replace(self.request.options, alternatives=0)
        return TranslationRequest(self.clean, options, tuple(dict.fromkeys(term.forms for term in self.terms)))

    def in_clean(self, at: int) -> int:
        """Maps a position in `source` that is not within a mark to `clean`."""
        shift = 0
        for mark in self.marks:
            if mark.at + shift >= at:
                break
            shift += mark.length - len(mark.gap)
        return at - shift

    def in_source(self, words: Iterable[AlignedWord]) -> tuple[AlignedWord, ...]:
        """The alignment with offsets in `source` instead of `clean`."""
        words = list(words)
        spans = self.spans_in_source((word.source_start, word.source_end) for word in words)
        return tuple(
            replace(word, source_start=start, source_end=end) for word, (start, end) in zip(words, spans, strict=True)
        )

    def spans_in_source(self, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The spans of `source` for spans of `clean`."""
        ends = [mark.at + len(mark.gap) for mark in self.marks]
        starts = [mark.at for mark in self.marks]
        growth = list(accumulate((mark.length - len(mark.gap) for mark in self.marks), initial=0))
        for first, last in spans:
            start = first + growth[bisect_right(ends, first)]
            yield start, max(start, last + growth[bisect_left(starts, last)])


def _without_marks(
    source: str, taken_out: Sequence[ProtectedSpan] = (), markup: Sequence[Markup] = ()
) -> tuple[str, tuple[Mark, ...]]:
    """The model's input, and the removed marks. taken_out: in order, without overlaps."""
    referred = {(start, end): character for start, end, character in references(source)}
    signs = {span for own in markup for span in (own.opening, own.closing)}
    if not taken_out and not referred and not signs and not UNUSUAL.search(source):
        return source, ()
    hidden = {at for start, end in signs for at in range(start, end)}
    referred = {span: character for span, character in referred.items() if span[0] not in hidden}
    taken_out = [span for span in taken_out if span.start not in hidden]
    clean: list[str] = []
    marks: list[Mark] = []
    at = length = 0
    for start, end in _marked_spans(source, taken_out, {*referred, *signs}):
        text = "" if (start, end) in signs else source[start:end]
        if text == " ":
            continue
        character = referred.get((start, end), "")
        if character and not UNUSUAL.fullmatch(character):  # the model reads the character itself
            clean += source[at:start], character
            length += start - at
            marks.append(Mark(length, "", character, end - start))
            length += 1
            at = end
            continue
        text = "" if text == SOFT_HYPHEN else text
        at_edge = (
            start == 0 or end == len(source) or (source[end] in CLOSING_PUNCTUATION and not source[end - 1].isspace())
        )
        gap = "" if at_edge or not text or ZERO_WIDTH.fullmatch(text) else " "
        clean += source[at:start], gap
        length += start - at
        marks.append(Mark(length, text, gap, end - start))
        length += len(gap)
        at = end
    return "".join((*clean, source[at:])), tuple(marks)


def _marked_spans(source: str, taken_out: Sequence[ProtectedSpan], referred: Collection[Span]) -> Iterator[Span]:
    """The spans to remove from the model's input: marks, `taken_out`, and the spans of `referred` outside of both.
    referred: references to characters that the model reads, and signs of emphasis. Adjacent spans are merged, except
    those of `referred`."""
    spans = [
        match.span()
        for match in MARK.finditer(source)
        if match[0] not in JOINERS or not is_spelling_joiner(source, match.start())
    ]
    spans += [match.span() for match in re.finditer(SOFT_HYPHEN, source)]
    if not taken_out:  # a link or placeholder that contains a mark is removed whole
        taken_out = [span for span in protected_spans(source) if UNUSUAL.search(source, span.start, span.end)]
    for span in taken_out:
        brackets = source[max(0, span.start - 1) : span.start] + source[span.end : span.end + 1] in _BRACKETS
        spans.append((span.start - brackets, span.end + brackets))
    removed = {at for link in taken_out for at in range(link.start, link.end)}
    spans += [own for own in referred if own[0] not in removed]
    spans.sort()
    if spans and spans[0][0] == 0 and spans[0] not in referred:  # a name at the start takes its comma with it
        pause = _PAUSE.match(source, spans[0][1])
        spans[0] = (0, pause.end() if pause else spans[0][1])
    remaining = deque(spans)
    while remaining:
        start, end = remaining.popleft()
        while remaining and remaining[0][0] <= end and (start, end) not in referred and remaining[0] not in referred:
            end = max(end, remaining.popleft()[1])
        yield start, end


_MOST_COPIED_WORDS = 12  # in a text; a text of unknown words is in another language


def copying_matcher(text: str, known_words: Collection[str]) -> TermMatcher | None:
    """A glossary of the unknown words of a text, each its own translation; neighbours are one term. None if there are
    none, or so many that nothing is left to translate."""
    runs: list[tuple[int, int]] = []
    for start, end in untrained_words(known_words, text):
        if runs and text[runs[-1][1] : start] == " ":
            runs[-1] = runs[-1][0], end
        else:
            runs.append((start, end))
    if not 0 < len(runs) <= _MOST_COPIED_WORDS:
        return None
    return TermMatcher({text[start:end]: text[start:end] for start, end in runs})
