"""Finds the parts of a plain text that have letters but are not translated (front matter, fenced code, the headers of a
mail), and the signs that separate the cells of a row (| a | b |) or the parts of a signature (a · b)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

Span = tuple[int, int]

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?:(?!---)[^\n]*\n){1,200}?---[ \t]*(?=\r?\n|\Z)")  # of Markdown, in YAML
_FENCE = re.compile(r"^[ \t]{0,9}(?:>[ \t]?){0,9}(`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
_ROW = re.compile(r"^[ \t>]*\|.*\|[ \t]*$", re.MULTILINE)
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_SEPARATOR = re.compile(r"(?<=[ \t])[|·•](?=[ \t])")
# RFC 5322: a name, a colon, a value, which goes on in lines that begin with a space.
_HEADER = re.compile(r"([A-Z][A-Za-z0-9]{0,30}(?:-[A-Za-z0-9]{1,30}){0,5}):[ \t]?.*(?:\r?\n[ \t]+\S.*)*(?:\r?\n|\Z)")
_FIRST_HEADERS = re.compile(
    r"^(?=(?:Return-Path|Delivered-To|Received|From|To|Subject|Date|Message-I[Dd]|MIME-Version|X-[\w-]{1,40}):[ \t])",
    re.MULTILINE,
)
_LEAST_HEADERS = 3
_SECTION_ENDS = ("\n\n", "\r\n\r\n", "\n", ". ", "。", " ")
_SUBJECT = re.compile(r"subject:[ \t]*(?:(?:re|fwd?|aw|wg|antw|tr|rif|sv)(?:\[\d{1,3}\])?:[ \t]*){0,5}", re.IGNORECASE)


def untranslatable_blocks(text: str) -> list[Span]:
    """The spans of front matter, of fenced code and of mail headers (except the subject), in order, without
    overlaps."""
    blocks = list(_fenced_code(text)) if "```" in text or "~~~" in text else []
    if text.startswith("---") and (front_matter := _FRONT_MATTER.match(text)):
        blocks = [front_matter.span(), *(span for span in blocks if span[0] >= front_matter.end())]
    headers: list[Span] = []
    if "Subject:" in text:
        starts = [start for start, _ in blocks]
        for span in _mail_headers(text):
            block = bisect_right(starts, span[0]) - 1
            if block < 0 or blocks[block][1] <= span[0]:
                headers.append(span)
    return sorted([*blocks, *headers])


def cell_borders(text: str) -> Iterator[Span]:
    """The spans of the signs that separate cells or parts of a line."""
    if "|" in text:
        for row in _ROW.finditer(text):
            yield from (border.span() for border in _CELL_BORDER.finditer(text, *row.span()))
    if "|" in text or "·" in text or "•" in text:
        yield from (separator.span() for separator in _SEPARATOR.finditer(text))


def text_sections(text: str, characters: int) -> Iterator[str]:
    """The text in parts of at most so many characters, cut between paragraphs or else lines, sentences or words; a
    longer block of code stays whole."""
    start = number = 0
    blocks = untranslatable_blocks(text) if len(text) > characters else []
    while len(text) - start > characters:
        most = start + characters
        ends = ((text.rfind(sign, start + characters // 2, most), len(sign)) for sign in _SECTION_ENDS)
        end = next((at + length for at, length in ends if at >= 0), most)
        while number < len(blocks) and blocks[number][1] <= end:
            number += 1
        if number < len(blocks) and blocks[number][0] < end:
            end = blocks[number][0] if blocks[number][0] > start else blocks[number][1]
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _fenced_code(text: str) -> Iterator[Span]:
    """A closing fence has the sign of the opening fence, is at least as long, and names no language."""
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[0].strip("> \t\r") == fence[1][0] * len(fence[1]) and fence[1].startswith(opening[1]):
            yield opening.start(), fence.end()
            opening = None


def _mail_headers(text: str) -> Iterator[Span]:
    """The spans of mail headers that are not translated: all of a block of headers except the value of Subject."""
    end = 0
    for first in _FIRST_HEADERS.finditer(text):
        if first.start() < end:
            continue
        headers: list[re.Match[str]] = []
        end = first.start()
        while header := _HEADER.match(text, end):
            headers.append(header)
            end = header.end()
        names = {header[1].lower() for header in headers}
        if len(headers) < _LEAST_HEADERS or not {"subject", "from"} <= names:
            continue
        for header in headers:
            subject = _SUBJECT.match(text, header.start())
            yield header.start(), subject.end() if subject else header.end()
