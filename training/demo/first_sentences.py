"""The test sentences of the demo translators: 200 for each, written by us, which no training text may contain.

A line of `first_sentences_*.txt` is a sentence, " = ", and its correct translations: alternatives have bars between
them, also within brackets ("[I am|I'm] Anna.|My name is Anna.")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from training.demo.lexicon import demo_text

_INNERMOST_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NO_LETTERS = re.compile(r"[^\w\s]")


def first_sentences(source: str, target: str, folder: Path | None = None) -> list[tuple[str, set[str]]]:
    """The sentences, each with its correct translations. folder: of other sentences in the same form."""
    name = f"first_sentences_{source}-{target}.txt"
    text = demo_text(name) if folder is None else (folder / name).read_text(encoding="utf-8")
    rows = [line.split(" = ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(sentence, set(_alternatives(pattern))) for sentence, pattern in rows]


def without_punctuation(text: str) -> str:
    """Lower case, words and numbers only: two sentences that agree in this are the same sentence."""
    return " ".join(_NO_LETTERS.sub(" ", text.casefold()).split())


def _alternatives(pattern: str) -> Iterator[str]:
    start = depth = 0
    for at, character in enumerate(pattern + "|"):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "|" and not depth:
            yield from _expanded(pattern[start:at])
            start = at + 1


def _expanded(part: str) -> Iterator[str]:
    match = _INNERMOST_BRACKETS.search(part)
    if match is None:
        yield part
        return
    for choice in match[1].split("|"):
        yield from _expanded(part[: match.start()] + choice + part[match.end() :])
