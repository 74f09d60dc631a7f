"""A text as pieces to translate and the layout between them; joined as they are they give the text again.

Breaks (line ends, tabs, control characters, columns of spaces) always part pieces. What a piece begins or ends with
and is no word, such as list markers, spaces and emoji, is layout too; what has no letters, or nothing but links and
placeholders beside numbers, is never translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.text.characters import BREAK, MARK, ODD, has_letters, unspaced
from app.text.plain import one_plain_sentence
from app.text.protected import may_hold_links, without_links
from app.text.sentences import sentence_spans

_ENDS = ".!?…。！？"
_LIST_MARKER = re.compile(r"(?:[-–—*•·‣>#+]+|\(?\d{1,3}[.)]|[a-zA-Z]\))\s")


@dataclass(frozen=True, slots=True)
class Layout:
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


def layout_of(text: str, language: str, *, split: bool = True) -> Layout:
    """split: whether lines are cut into sentences."""
    if one_plain_sentence(text):
        return Layout(text, language, ((0, len(text)),))
    spans = []
    for line_start, line_end in _lines(text):
        line = text[line_start:line_end]
        inner = sentence_spans(line, language) if split else [(0, len(line))]
        for start, end in _parted(line, inner) if split and ODD.search(line) else inner:
            start, end = trimmed(text, line_start + start, line_start + end)
            if start < end and translatable(text[start:end]):
                spans.append((start, end))
    return Layout(text, language, tuple(spans))


def _parted(line: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Also where an emoji or a wide space follows the end of a sentence: the splitter knows plain spaces alone."""
    for start, end in spans:
        for mark in MARK.finditer(line, start, end):
            if mark[0] != " " and mark.start() > start and line[mark.start() - 1] in _ENDS:
                yield start, mark.end()
                start = mark.end()
        if start < end:
            yield start, end


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
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


def translatable(piece: str) -> bool:
    return has_letters(piece) and (not may_hold_links(piece) or has_letters(without_links(piece)))


def spaces(layout: Layout, target_language: str) -> Iterator[str]:
    """What stands before each piece in the translation, and after the last one: what stands there in the source. Only
    a single space between sentences comes or goes where one of the two languages sets spaces and the other does not."""
    between = layout.between
    yield between[0]
    reads_none, sets_none = _unspaced(layout.language), _unspaced(target_language)
    for (_, end), each in zip(layout.spans[:-1], between[1:-1], strict=True):
        if each == "" and reads_none and not sets_none and unspaced(layout.text[end - 1]):
            yield " "
        elif each == " " and sets_none and not reads_none:
            yield ""
        else:
            yield each
    if layout.spans:
        yield between[-1]


def _unspaced(language: str) -> bool:
    return language.lower().partition("-")[0] in ("zh", "ja")


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in BREAK.finditer(text):
        yield start, found.start()
        start = found.end()
    yield start, len(text)
