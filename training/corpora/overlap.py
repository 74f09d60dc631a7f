"""Which training pairs the held-out pairs hold as well. A model that has seen a test sentence is not tested by it."""

from __future__ import annotations

import unicodedata
from typing import Literal

from training.corpora.pairs import Pairs

Kind = Literal["pair", "source", "target"]


def comparable(text: str) -> str:
    """The text but for case, white space and compatibility forms (NFKC, as the tokenizers normalise)."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold().strip(" ")
    if "  " in text or not text.isprintable():  # what is printable has no other white space than the space
        text = " ".join(text.split())
    return text


class Overlap:
    """The sentences of a held-out set, to be looked up."""

    def __init__(self, held_out: Pairs) -> None:
        self._targets_of: dict[str, set[str]] = {}
        self._targets: set[str] = set()
        for source, target in zip(held_out.sources, held_out.targets, strict=True):
            key = comparable(target)
            self._targets_of.setdefault(comparable(source), set()).add(key)
            self._targets.add(key)

    def kind(self, source: str, target: str) -> Kind | None:
        """What a pair, its sides already `comparable`, has in common with the set; the gravest only."""
        if source in self._targets_of:
            return "pair" if target in self._targets_of[source] else "source"
        return "target" if target in self._targets else None
