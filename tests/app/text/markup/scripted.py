"""Translations whose every word is known to come from one of the source."""

from __future__ import annotations

import re

from app.text.markup.page import read_page
from app.text.markup.words import Word


def same(text: str) -> tuple[str, list[Word]]:
    return text, [Word(*found.span(), *found.span()) for found in re.finditer(r"\S+", text)]


def backwards(text: str) -> tuple[str, list[Word]]:
    """The words in capitals, last first."""
    out, alignment = "", []
    for found in reversed(list(re.finditer(r"\S+", text))):
        out += " " * bool(out)
        alignment.append(Word(len(out), len(out) + len(found[0].upper()), *found.span()))
        out += found[0].upper()
    return out, alignment


def ordered(text: str, pairs: str) -> tuple[str, list[Word]]:
    """pairs: "target=source target=source target", in the target's order; the sources as they stand in the text."""
    out, alignment = "", []
    for pair in pairs.split():
        word, _, origin = pair.partition("=")
        out += " " * bool(out)
        if origin:
            start = text.index(origin)
            alignment.append(Word(len(out), len(out) + len(word), start, start + len(origin)))
        out += word
    return out, alignment


def translated(page: str, how=same) -> str:  # type: ignore[no-untyped-def]
    read = read_page(page)
    return "".join(read.pieces([how(text) for text in read.texts]))
