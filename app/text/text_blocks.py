"""Parts of a plain text that are no sentences, although they have letters: fenced code, the headers of a mail, and the
signs between the cells of a row (| a | b |) or the parts of a signature (a · b)."""

from __future__ import annotations

import re
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
_SUBJECT = re.compile(
    r"(?i:subject):[ \t]*(?:(?:re|fwd?|aw|wg|antw|tr|rif|sv)(?:\[\d{1,3}\])?:[ \t]*){0,5}", re.IGNORECASE
)


def untranslatable_blocks(text: str) -> list[Span]:
    """Front matter, fenced code and mail headers besides the subject, in order and without overlaps."""
    blocks = list(_fenced_code(text)) if "```" in text or "~~~" in text else []
    if text.startswith("---") and (front_matter := _FRONT_MATTER.match(text)):
        blocks = [front_matter.span(), *(span for span in blocks if span[0] >= front_matter.end())]
    if "Subject:" in text:
        blocks += [span for span in _mail_headers(text) if not _within(span, blocks)]
    return sorted(blocks)


def cell_borders(text: str) -> Iterator[Span]:
    """The signs between cells and parts of a line."""
    if "|" in text:
        for row in _ROW.finditer(text):
            yield from (border.span() for border in _CELL_BORDER.finditer(text, *row.span()))
    if "|" in text or "·" in text or "•" in text:
        yield from (separator.span() for separator in _SEPARATOR.finditer(text))


def _fenced_code(text: str) -> Iterator[Span]:
    """A fence is closed by one of the same sign, as long at least and without a name."""
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[0].strip("> \t\r") == fence[1][0] * len(fence[1]) and fence[1].startswith(opening[1]):
            yield opening.start(), fence.end()
            opening = None


def _mail_headers(text: str) -> Iterator[Span]:
    """Of each block of headers the parts that stay as they are: all but the value of Subject."""
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


def _within(span: Span, blocks: list[Span]) -> bool:
    return any(start <= span[0] < end for start, end in blocks)
