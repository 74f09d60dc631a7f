"""A paragraph of formatted text as HTML, so that its formatting follows the alignment, and back."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.text.markup.tokens import tokens

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TAGS = {"group": "span", "mark": "img", "break": "br"}


@dataclass(frozen=True, slots=True)
class Piece:
    """text: as it is read. group: formatting around others. mark: an image, a note's number, within a sentence. break:
    a tab, a new line: what stands before and behind it is translated apart. handle: whose it is in the file."""

    kind: Literal["text", "group", "mark", "break"]
    text: str = ""
    handle: Any = None
    within: Sequence[Piece] = field(default=())


def says(pieces: Iterable[Piece]) -> bool:
    return any(each.text.strip() or says(each.within) for each in pieces)


def page(pieces: Sequence[Piece]) -> str:
    """In a <pre>, since every space counts."""
    return f"<pre>{''.join(_tagged(pieces, iter(range(10**9))))}</pre>"


def _tagged(pieces: Sequence[Piece], numbers: Iterator[int]) -> Iterator[str]:
    for each in pieces:
        if each.kind == "text":
            yield html.escape(each.text, quote=False)
            continue
        yield f"<{_TAGS[each.kind]} id={next(numbers)}>"
        yield from _tagged(each.within, numbers)
        if each.kind == "group":
            yield "</span>"


def rebuilt(pieces: Sequence[Piece], translation: str) -> list[Piece]:
    """The same pieces around the texts of the translation of their `page`, and in its order."""
    known = list(_numbered(pieces))
    levels: list[list[Piece]] = [[]]
    open_groups: list[Piece] = []
    for token in tokens(translation):
        if token.kind in ("text", "reference"):
            levels[-1].append(Piece("text", _NO_XML.sub("", token.text)))
        elif token.tag in _TAGS.values() and token.kind == "start":
            each = known[int("".join(filter(str.isdigit, token.raw)))]
            if each.kind == "group":
                open_groups.append(each)
                levels.append([])
            else:
                levels[-1].append(each)
        elif token.tag == "span":
            within = levels.pop()
            levels[-1].append(replace(open_groups.pop(), within=_joined(within)))
    return _joined(levels[0])


def _numbered(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for each in pieces:
        if each.kind != "text":
            yield each
            yield from _numbered(each.within)


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for each in pieces:
        if each.kind == "text" and joined and joined[-1].kind == "text":
            joined[-1] = Piece("text", joined[-1].text + each.text)
        elif each.kind != "text" or each.text:
            joined.append(each)
    return joined
