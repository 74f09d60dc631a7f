"""Decides which line ends and columns of a text end a sentence. Mail programs and editors break a sentence into lines
of a fixed width, also in quotations (> ). Lines of lists, addresses, poems, or of one sentence each, end before the
next word would exceed the width; these line ends do end a sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from app.text.layout_characters import BREAK, is_unspaced_script
from app.text.line_marks import behind_markers

_PREFIX = re.compile(r"(?:[ \t]{0,9}>){0,20}[ \t]*")
_LEAST_WIDTH, _MOST_WIDTH = 40, 100  # characters of a line that was broken at a width
_OWN_LINE = re.compile(r"[-–—*•·‣>#+|=~`]")  # begins an item, a heading, a table
_SENTENCE_END = ".!?:;…。！？|"
_CLOSING = "\"'”’»)]*_"
_FIRST_WORD = re.compile(r"\S+")
_PARAGRAPH = 3  # lines whose widths prove wrapping; two lines must also end with a stop and go on in lower case
_GAP = re.compile(r"(?<=\S) {3,}(?=\S)")
_LEAST_ROWS = 2  # of a table


def breaks(text: str) -> Iterator[re.Match[str]]:
    """The matches of `BREAK` that end a sentence. Line ends within a wrapped sentence are left out, and so are several
    spaces between words of a sentence ("ich   möchte") unless another line has a column at the same position."""
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
    """Position in a line -> number of lines with a column that begins there."""
    return Counter(match.end() - text.rfind("\n", 0, match.end()) for match in _GAP.finditer(text))


class _Line(NamedTuple):
    """A line. end: the position of its line end in the text. prefix: its quote signs and indentation, which `words`
    does not have."""

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
    """Groups neighbouring lines with the same prefix; a list item, a heading or a table row begins a new group."""
    paragraph: list[_Line] = []
    at = 0
    for raw in text.split("\n"):
        line = raw.removesuffix("\r")
        prefix = _PREFIX.match(line)
        start = prefix.end() if prefix else 0
        words = line[start:]
        begins = not words or _OWN_LINE.match(words) or behind_markers(words, 0, len(words))
        if paragraph and (begins or line[:start] != paragraph[-1].prefix):
            yield paragraph
            paragraph = []
        if words:
            paragraph.append(_Line(at + len(line), len(line), line[:start], words))
        at += len(raw) + 1
    if paragraph:
        yield paragraph


def _wrapped(paragraph: list[_Line]) -> Iterator[_Line]:
    """The lines of a paragraph that end within a sentence. Yields none unless one width explains all line ends: no line
    has room for the first word of the next."""
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
    """The last character of a line before closing quotes and brackets."""
    return line.words.rstrip(_CLOSING)[-1:] or " "
