"""Where the lines and columns of a text end a sentence, and where they do not: mail programs and editors break lines at
a fixed width, also quoted ones (> ). Lines that are texts of their own (lists, addresses, poems, one sentence a line)
end before the width is used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from app.text.layout_characters import BREAK, is_unspaced_script

_PREFIX = re.compile(r"(?:[ \t]{0,9}>){0,20}[ \t]*")
_LEAST_WIDTH, _MOST_WIDTH = 40, 100  # characters of a line that was broken at a width
_OWN_LINE = re.compile(r"[-–—*•·‣>#+|=~`]|\(?\d{1,3}[.)]\s|[a-zA-Z]\)\s")  # begins an item, a heading, a table
_SENTENCE_END = ".!?:;…。！？|"
_CLOSING = "\"'”’»)]*_"
_FIRST_WORD = re.compile(r"\S+")
_PARAGRAPH = 3  # lines, whose width shows that they were broken; of two lines the words have to show it
_GAP = re.compile(r"(?<=\S) {3,}(?=\S)")
_LEAST_ROWS = 2  # of a table


def breaks(text: str) -> Iterator[re.Match[str]]:
    """The breaks of a text. Several plain spaces between words of a sentence ("ich   möchte") are none, unless other
    lines have a column there; neither is a line end within a sentence."""
    columns: Counter[int] | None = None
    wrapped = _wrapped_line_ends(text)
    for match in BREAK.finditer(text):
        if match.start() in wrapped:
            continue
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        if not match[0].strip(" ") and (before.isalpha() or before == ",") and after.islower():
            columns = _columns(text) if columns is None else columns
            if columns[match.end() - text.rfind("\n", 0, match.end())] < _LEAST_ROWS:
                continue
        yield match


def _columns(text: str) -> Counter[int]:
    """How many lines begin a column at each position."""
    return Counter(match.end() - text.rfind("\n", 0, match.end()) for match in _GAP.finditer(text))


class _Line(NamedTuple):
    """end: of its words in the text, where its line end begins. prefix: quote signs and indentation."""

    end: int
    length: int
    prefix: str
    words: str


def _wrapped_line_ends(text: str) -> set[int]:
    """Positions of the line ends that are within a sentence."""
    if "\n" not in text:
        return set()
    return {line.end for paragraph in _paragraphs(text) for line in _wrapped(paragraph)}


def _paragraphs(text: str) -> Iterator[list[_Line]]:
    """Neighbouring lines with the same prefix; a line that begins an item begins a paragraph."""
    paragraph: list[_Line] = []
    at = 0
    for raw in text.split("\n"):
        line = raw.removesuffix("\r")
        prefix = _PREFIX.match(line)
        start = prefix.end() if prefix else 0
        words = line[start:]
        if paragraph and (not words or line[:start] != paragraph[-1].prefix or _OWN_LINE.match(words)):
            yield paragraph
            paragraph = []
        if words:
            paragraph.append(_Line(at + len(line), len(line), line[:start], words))
        at += len(raw) + 1
    if paragraph:
        yield paragraph


def _wrapped(paragraph: list[_Line]) -> Iterator[_Line]:
    """The lines of a paragraph that end within a sentence, if a width explains all of its line ends."""
    width = max(line.length for line in paragraph)
    for line, following in pairwise(paragraph):
        first_word = _FIRST_WORD.match(following.words)
        fits = line.length + 1 + (first_word.end() if first_word else 0) <= width
        if fits or not _LEAST_WIDTH <= line.length <= _MOST_WIDTH:
            return
    if len(paragraph) < _PARAGRAPH and _last_character(paragraph[-1]) not in _SENTENCE_END:
        return
    for line, following in pairwise(paragraph):
        end = _last_character(line)
        goes_on = following.words[0].islower() or (len(paragraph) >= _PARAGRAPH and following.words[0].isalnum())
        if end not in _SENTENCE_END and not end.isspace() and goes_on and not is_unspaced_script(end):
            yield line


def _last_character(line: _Line) -> str:
    """Besides closing quotes and brackets."""
    return line.words.rstrip(_CLOSING)[-1:] or " "
