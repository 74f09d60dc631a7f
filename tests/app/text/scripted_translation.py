"""Translations with a known source word for every word."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from app.text.html_page import parse_page
from app.text.tag_placement import AlignedSpan


def same(text: str) -> tuple[str, list[AlignedSpan]]:
    return text, [AlignedSpan(*found.span(), *found.span()) for found in re.finditer(r"\S+", text)]


def backwards(text: str) -> tuple[str, list[AlignedSpan]]:
    """The words in capitals, last first."""
    out, alignment = "", []
    for result in reversed(list(re.finditer(r"\S+", text))):
        out += " " * bool(out)
        alignment.append(AlignedSpan(len(out), len(out) + len(result[0].upper()), *result.span()))
        out += result[0].upper()
    return out, alignment


def at_random(seed: int) -> Callable[[str], tuple[str, list[AlignedSpan]]]:
    """Any words, and an alignment that makes no sense."""
    rng = random.Random(seed)

    def how(text: str) -> tuple[str, list[AlignedSpan]]:
        out = " ".join(rng.choice(("foo", "bar,", "{1}", "x y", "(baz)", "", ".")) for _ in range(rng.randint(0, 8)))
        alignment = []
        for _ in range(rng.randint(0, 10)):
            here = sorted(rng.randint(-1, len(out) + 1) for _ in range(2))
            alignment.append(AlignedSpan(*here, *sorted(rng.randint(-1, len(text) + 1) for _ in range(2))))
        return out, alignment

    return how


def ordered(text: str, pairs: str) -> tuple[str, list[AlignedSpan]]:
    """pairs: "target=source target=source target", in the target's order; the sources as they stand in the text."""
    out, alignment = "", []
    for pair in pairs.split():
        word, _, origin = pair.partition("=")
        out += " " * bool(out)
        if origin:
            start = text.index(origin)
            alignment.append(AlignedSpan(len(out), len(out) + len(word), start, start + len(origin)))
        out += word
    return out, alignment


def translated(page: str, how=same) -> str:  # type: ignore[no-untyped-def]
    read = parse_page(page)
    return "".join(read.pieces([how(text) for text in read.texts]))
