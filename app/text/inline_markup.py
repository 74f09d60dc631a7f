"""Emphasis and links within a sentence of plain text, as in Markdown and in chats: **bold**, *italic*, _italic_,
~~struck~~, [text](address), ![text](image). The signs are removed from the model's input. In the translation they are
set around the words that are aligned with the emphasised words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.text.html_passages import InlineElement
from app.text.protected_spans import protected_spans
from app.text.tag_placement import AlignedSpan, PlacedElement, TagPlacement, aligned_words

Span = tuple[int, int]

_SIGNS = re.compile(r"[*_~]|\]\(")
_LINK = re.compile(
    r"(?P<opening>!?\[)(?P<words>[^\[\]]{1,300})"
    r"(?P<closing>\]\((?:<[^<>\n]{1,500}>|[^\s()]{1,500}(?:\([^\s()]{0,80}\)[^\s()]{0,80})?)(?:\s\"[^\"\n]{0,200}\")?\))"
)
# From the longest sign to the shortest, so that the stars of ** are not taken for two signs *.
_EMPHASES = tuple(
    re.compile(
        rf"(?<![\w{sign[0]}\\])(?P<opening>{re.escape(sign)})(?=[^\s{sign[0]}])(?P<words>.{{1,500}}?)"
        rf"(?<=[^\s{sign[0]}\\])(?P<closing>{re.escape(sign)})(?![\w{sign[0]}])",
        re.DOTALL,
    )
    for sign in ("***", "**", "__", "~~", "*", "_")
)
_MASK = "\1"
_UNCLOSED = ("**", "__", "~~")


@dataclass(frozen=True, slots=True)
class Markup:
    """An emphasis or a link. words: the span of the emphasised words. opening, closing: the spans of the signs before
    and behind the words."""

    opening: Span
    words: Span
    closing: Span


def markup_of(text: str) -> list[Markup]:
    """The emphases and links of a sentence in order of their beginnings; an outer one precedes the ones inside it. One
    that would overlap another without enclosing it is left out."""
    if not _SIGNS.search(text):
        return []
    links = list(_LINK.finditer(text))
    closings = [link.span("closing") for link in links]
    masked = _masked(text, [*closings, *((span.start, span.end) for span in protected_spans(text))])
    found = [_markup(link) for link in links]
    for emphasis in _EMPHASES:
        own = [_markup(match) for match in emphasis.finditer(masked)]
        found += own
        masked = _masked(masked, [span for each in own for span in (each.opening, each.closing)])
    found.sort(key=lambda markup: (markup.opening[0], -markup.closing[1]))
    kept: list[Markup] = []
    ends: list[int] = []
    for markup in found:
        while ends and ends[-1] <= markup.opening[0]:
            ends.pop()
        if not ends or markup.closing[1] <= ends[-1]:
            kept.append(markup)
            ends.append(markup.words[1])
    return kept


def unclosed_signs(text: str) -> tuple[int, int]:
    """The length of an opening sign at the beginning of a sentence whose closing sign is in a later sentence, and of a
    closing sign at its end whose opening sign is in an earlier sentence; 0 without such a sign."""
    begins = next((len(sign) for sign in _UNCLOSED if text.startswith(sign) and text.count(sign) % 2), 0)
    ends = next((len(sign) for sign in _UNCLOSED if text.endswith(sign) and text.count(sign) % 2), 0)
    return begins, 0 if begins else ends


def placed_signs(
    source: str,
    clean: str,
    markup: Sequence[Markup],
    in_clean: Callable[[int], int],
    translation: str,
    alignment: Sequence[AlignedSpan],
) -> Iterator[tuple[int, str]]:
    """Yields a position in `translation`, the translation of `clean`, and the sign to insert there, in order of the
    positions. source: the text of `markup`; `clean` is `source` without the signs. in_clean: maps a position in
    `source` to one in `clean`. An emphasis without aligned words is left out; a link without any is written with its
    source's words."""
    elements = _elements(source, markup, in_clean)
    words = aligned_words(clean, translation, alignment, [])
    yield from _signs(TagPlacement(clean, words).placed(elements), clean, words, len(translation))


def _elements(source: str, markup: Sequence[Markup], in_clean: Callable[[int], int]) -> list[InlineElement]:
    top: list[InlineElement] = []
    open_elements: list[tuple[int, InlineElement]] = []
    for own in markup:
        start, end = (in_clean(at) for at in own.words)
        element = InlineElement("element", source[slice(*own.opening)], start, end, source[slice(*own.closing)])
        while open_elements and open_elements[-1][0] <= own.opening[0]:
            open_elements.pop()
        (open_elements[-1][1].within if open_elements else top).append(element)
        open_elements.append((own.closing[1], element))
    return top


def _signs(
    placed: Iterable[PlacedElement], clean: str, words: Sequence[AlignedSpan], length: int
) -> Iterator[tuple[int, str]]:
    for element in placed:
        inline = element.inline
        if element.first < element.behind:
            yield words[element.first].start, inline.opening
            yield from _signs(element.within, clean, words, length)
            yield words[element.behind - 1].end, inline.closing
        elif "](" in inline.closing:
            written = inline.opening + clean[inline.start : inline.end] + inline.closing
            if element.first < len(words):
                yield words[element.first].start, f"{written} "
            else:
                yield length, f" {written}" if length else written


def _markup(match: re.Match[str]) -> Markup:
    return Markup(match.span("opening"), match.span("words"), match.span("closing"))


def _masked(text: str, spans: Iterable[Span]) -> str:
    characters = list(text)
    for start, end in spans:
        characters[start:end] = _MASK * (end - start)
    return "".join(characters)
