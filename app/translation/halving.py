"""Sentences that are longer than the model takes, cut where it hurts least: behind a clause, else between words, else
between characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence

from app.text.characters import MARK, ODD, WIDE
from app.text.protected import kept_spans
from app.translation.layout import Layout, translatable, trimmed
from app.translation.sentence import Sentence

_CLAUSE_END = re.compile(r"[,;:–—…)\]”»](?=\s)|[，、；：。！？）」』،؛]")
_SENTENCE_END = re.compile(r"[.!?…][\"'”»)\]]*\s")
_SPARE = 0.9  # of the room: a part may have more tokens for its length than the whole
_GLUE = "\u200d\ufe0e\ufe0f\u20e3"
Span = tuple[int, int]
Count = Callable[[Sequence[str]], Awaitable[list[int]]]


def surely_fits(layout: Layout, room: int) -> bool:
    """Whether every piece does by its bytes alone; a character has four at most."""
    return all(
        end - start < room // 4 or len(layout.text[start:end].encode()) < room - 2 for start, end in layout.spans
    )


async def fitted(layout: Layout, room: int, count: Count, *, certain: bool = False) -> Layout:
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
                size = max(1, min(int((end - start) * room * _SPARE / tokens), (end - start + 1) // 2))
                parts += _at_ends(layout.text, start, end) or _cut(layout.text, start, end, size)
        open_spans = parts
    return Layout(layout.text, layout.language, tuple(sorted(done)))


def halves(text: str, language: str) -> Layout:
    """A sentence as two; as it is where nothing of it can be parted."""
    return Layout(text, language, tuple(_cut(text, 0, len(text), (len(text) + 1) // 2)))


def keeps_spaces(source: str, text: str) -> bool:
    """Whether a translation of a sentence has its wide and double spaces, in their order, and none at its edges."""
    if not ODD.search(source):
        return True
    return text == text.strip() and WIDE.findall(text) == WIDE.findall(source)


def at_spaces(text: str, language: str) -> Layout | None:
    """A sentence in the parts between its wide and double spaces, or else between its emoji; None without any."""
    inside = {at for each in kept_spans(text) for at in range(each.start, each.end)}
    cuts = [found.span() for found in WIDE.finditer(text) if found.start() not in inside]
    cuts = cuts or [found.span() for found in MARK.finditer(text) if found[0] != " " and found.start() not in inside]
    starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]
    spans = [trimmed(text, start, end) for start, end in zip(starts, ends, strict=True)]
    spans = [(start, end) for start, end in spans if start < end and translatable(text[start:end])]
    return Layout(text, language, tuple(spans)) if cuts else None


def _at_ends(text: str, start: int, end: int) -> list[Span]:
    """The sentences of what was too long to be one, for instance where all letters are small; none where it is one."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text, start, end) if found.end() < end]
    spans = [trimmed(text, *span) for span in zip([start, *ends], [*ends, end], strict=True)] if ends else []
    return [span for span in spans if span[0] < span[1] and translatable(text[span[0] : span[1]])]


def _cut(text: str, start: int, end: int, size: int) -> list[Span]:
    """Spans of at most about so many characters, without what stands around their words."""
    spans = []
    links = [(start + each.start, start + each.end) for each in kept_spans(text[start:end])]
    while start < end:
        stop = end if end - start <= size else _best_cut(text, start, start + size)
        for first, last in links:  # of half a link nobody would know that it is one
            if first < stop < last:
                stop = first if first > start else last
        span = trimmed(text, start, stop)
        if span[0] < span[1] and translatable(text[span[0] : span[1]]):
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
