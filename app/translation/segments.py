"""A text as sentences and the layout between them. A sentence is a piece of the text that the model translates by
itself; line ends, list markers, table borders and the like are layout, which comes back as it is. A sentence that has
more tokens than the model reads is cut where its clauses end."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from app.engine.interface import TranslationOptions
from app.text.inline_markup import markup_of, surrounding_signs
from app.text.language_codes import base_language
from app.text.layout_characters import MARK, UNUSUAL, WIDE_SPACE, has_letters, is_unspaced_script
from app.text.line_breaks import breaks
from app.text.line_marks import behind_markers, separators, without_trailers
from app.text.protected_spans import may_hold_protected, protected_spans, without_protected
from app.text.sentence_splitting import sentence_spans
from app.text.text_blocks import cell_borders, frames, merged, untranslatable_blocks
from app.translation.steps import CountTokens, Room, Steps, ask

Span = tuple[int, int]
_ENDS = 2  # tokens that a model adds to a text

_LETTERS = "A-Za-zÀ-ÖØ-öø-ɏА-я"
_PLAIN_SENTENCE = re.compile(rf"[{_LETTERS}][{_LETTERS} '’\-]*(?:, [{_LETTERS} '’\-]*)*,?[.!?]?")
_CLAUSE_END = re.compile(r"[,;:–—…)\]”»](?=\s)|[，、；：。！？）」』،؛]")
_SENTENCE_END = re.compile(r"[.!?…][\"'”»)\]]*\s")
_FILL = 0.9  # of the model's limit, since a part may have more tokens per character than the whole
_EDGES = 8  # signs within signs
_JOINER = "\u200d"
_GLUE = f"{_JOINER}\ufe0e\ufe0f\u20e3"
_LONGEST_CHARACTER = 32  # code points
_PLACEHOLDERS, _LONGEST_PLACEHOLDER = ("{{", "<%", "<?", "\\(", "$"), 200
_BRACKET = re.compile(r"[{<\[%$]")
_LONGEST_WORD = 40
_TWO_SENTENCES = re.compile(r"(?<![^\s\"'(])[^\W\d_]+[.!?…][\"'”»)]?[A-ZÀ-ÞА-Я][^\W\d_]*(?![^\s,.!?])")


def one_plain_sentence(text: str) -> bool:
    """A quick test: True only for one sentence without marks, links or digits; False also for rarer characters."""
    return (
        _PLAIN_SENTENCE.fullmatch(text) is not None
        and text[-1] != " "
        and text[1:] != "."
        and "  " not in text
        and "--" not in text
        and " - " not in text
        and text[1:2] != "D"  # of the emoticon xD
        and "D" not in text[-2:]
    )


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
        layout = [self.text[start:end] for start, end in between(self.spans, 0, len(self.text))]
        source_unspaced, target_unspaced = _sets_no_spaces(self.language), _sets_no_spaces(target_language)
        if source_unspaced != target_unspaced:
            for number, (_, end) in enumerate(self.spans[:-1], 1):
                if source_unspaced and layout[number] == "" and is_unspaced_script(self.text[end - 1]):
                    layout[number] = " "
                elif target_unspaced and layout[number] == " ":
                    layout[number] = ""
        return layout


def between(cuts: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """The parts of [start, end) before, between and after the cuts."""
    for cut_start, cut_end in cuts:
        yield start, cut_start
        start = cut_end
    yield start, end


def _sets_no_spaces(language: str) -> bool:
    return base_language(language) in ("zh", "ja")


def segmented(text: str, language: str, *, split: bool = True) -> SegmentedText:
    """Splits a text into pieces. split: whether to split lines into sentences."""
    if one_plain_sentence(text):
        return SegmentedText(text, language, ((0, len(text)),))
    spans = []
    for line_start, line_end in between(_cuts(text), 0, len(text)):
        line_start, line_end = _without_edges(text, line_start, line_end)
        line = text[line_start:line_end]
        for start, end in _outside_links(line, sentence_spans(line, language)) if split else [(0, len(line))]:
            spans += words_in(text, line_start + start, line_start + end)
    return SegmentedText(text, language, tuple(spans))


def _cuts(text: str) -> list[Span]:
    """Spans that always separate pieces, in order and without overlaps."""
    blocks = [*(match.span() for match in breaks(text)), *untranslatable_blocks(text)]
    blocks += frames(text)
    signs = [*cell_borders(text), *separators(text)]
    if signs and _BRACKET.search(text):  # a placeholder may have a sign within it
        inside = {at for span in protected_spans(text) for at in range(span.start + 1, span.end)}
        signs = [span for span in signs if span[0] not in inside and span[1] - 1 not in inside]
    return merged([*blocks, *signs])


def _outside_links(line: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Joins sentences that end within a link, after the ! of an image, or within a path or the like."""
    links = [(own.opening[0], own.closing[1]) for own in markup_of(line) if own.is_link]
    begins = number = 0
    for _, end in spans:
        while number < len(links) and links[number][1] <= end:
            number += 1
        if (number == len(links) or links[number][0] >= end) and not _within_word(line, begins, end):
            yield begins, end
            begins = end


def _within_word(line: str, begins: int, end: int) -> bool:
    """Whether no space is around the end of a sentence, and it is none of two words without one ("Ende.Anfang")."""
    if end == len(line) or line[end - 1].isspace() or line[end].isspace() or is_unspaced_script(line[end - 1]):
        return False
    return _TWO_SENTENCES.search(line, max(begins, end - _LONGEST_WORD), end + _LONGEST_WORD) is None


def words_in(text: str, start: int, end: int) -> list[Span]:
    """The span without layout at its edges; [] if nothing in it is translatable."""
    start, end = _without_edges(text, start, end)
    piece = text[start:end]
    translatable = has_letters(piece) and (not may_hold_protected(piece) or has_letters(without_protected(piece)))
    return [(start, end)] if translatable else []


def _without_edges(text: str, start: int, end: int) -> Span:
    for _ in range(_EDGES):
        outer = start, end
        if not (text.startswith(_PLACEHOLDERS, start) and _begins_protected(text, start, end)):
            start = _outside_placeholders(text, behind_markers(text, start, end), start, start, end)
        end = _outside_placeholders(text, without_trailers(text, start, end), end, start, end)
        before, behind = surrounding_signs(text[start:end])
        start, end = start + before, end - behind
        if outer == (start, end):
            break
    return start, end


def _outside_placeholders(text: str, at: int, edge: int, start: int, end: int) -> int:
    """The place before or after which signs are no part of a sentence, or the border of a placeholder that it is in."""
    if not text[min(at, edge) : max(at, edge)].strip():
        return at
    near = max(start, at - _LONGEST_PLACEHOLDER)
    spans = protected_spans(text[near : min(end, at + _LONGEST_PLACEHOLDER)])
    for span in spans:
        if near + span.start < at < near + span.end:
            return near + (span.start if edge < at else span.end)
    return at


def _begins_protected(text: str, start: int, end: int) -> bool:
    spans = protected_spans(text[start : min(end, start + _LONGEST_PLACEHOLDER)])
    return text[start] == "\\" or (bool(spans) and spans[0].start == 0)


def split_to_fit(
    text: SegmentedText, options: TranslationOptions, read: Callable[[str], str], *, certain: bool = False
) -> Steps[SegmentedText]:
    """Splits pieces to what the model reads. read: what it reads of a piece. certain: count the tokens of all pieces:
    tokenizers may expand characters, so that a piece has more tokens than bytes."""
    room = yield from ask(Room(options))
    if not certain and len(text.text.encode()) < room - _ENDS:
        return text  # every piece fits
    done: list[Span] = []
    open_spans = list(text.spans)
    while open_spans:
        fits = [not certain and len(text.text[start:end].encode()) < room - _ENDS for start, end in open_spans]
        done += [span for span, fit in zip(open_spans, fits, strict=True) if fit]
        uncertain = [span for span, fit in zip(open_spans, fits, strict=True) if not fit]
        if not uncertain:
            break
        pieces = tuple(read(text.text[start:end]) for start, end in uncertain)
        counts = yield from ask(CountTokens(options, pieces))
        open_spans = []
        for span, tokens in zip(uncertain, counts, strict=True):
            if tokens <= room or span[1] - span[0] == 1:
                done.append(span)
            else:
                open_spans += _parts_to_fit(text.text, span, tokens, room)
    return replace(text, spans=tuple(sorted(done)))


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


def wide_spaces(sentence: str) -> list[Span]:
    """The wide and double spaces of a sentence, or else its emoji."""
    inside = {at for span in protected_spans(sentence) for at in range(span.start, span.end)}
    cuts = [match.span() for match in WIDE_SPACE.finditer(sentence) if match.start() not in inside]
    return cuts or [m.span() for m in MARK.finditer(sentence) if m[0] != " " and m.start() not in inside]


def _sentence_parts(text: str, start: int, end: int) -> list[Span]:
    """Sentences that the splitter missed, such as all-lowercase ones; [] if there is only one."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, end) if match.end() < end]
    parts = between(((at, at) for at in ends), start, end) if ends else ()
    return [span for part in parts for span in words_in(text, *part)]


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
        spans += words_in(text, start, stop)
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
