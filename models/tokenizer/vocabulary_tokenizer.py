"""Characters, or words separated by white space, from a fixed vocabulary."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from models.tokenizer.base import ListedTokenizer, Piece, SpecialTokens


class VocabularyTokenizer(ListedTokenizer):
    """A part outside the vocabulary becomes the unknown token; without one, `encode` raises ValueError."""

    def __init__(self, kind: str, vocabulary: Sequence[str], special: SpecialTokens) -> None:
        if kind not in ("character", "word"):
            raise ValueError(f"A vocabulary holds characters or words, not {kind!r}.")
        super().__init__(vocabulary, special)
        specials = special.ids()
        if any(not 0 <= i < len(vocabulary) for i in specials):
            raise ValueError("A special token must be one of the vocabulary.")
        self.kind = kind
        self._ids = {piece: i for i, piece in enumerate(self.vocabulary) if i not in specials}
        self._parts = re.compile(r"\S+") if kind == "word" else re.compile(r"(?s).")
        self._joint = " " if kind == "word" else ""
        self._specials = specials

    def pieces(self, text: str) -> list[Piece]:
        found = []
        for match in self._parts.finditer(text):
            token = self._ids.get(match.group(), self.special.unknown)
            if token is None:
                raise ValueError(f"The vocabulary does not hold {match.group()!r}.")
            found.append(Piece(token, self.vocabulary[token], match.start(), match.end()))
        return found

    def decode(self, ids: Iterable[int]) -> str:
        return self._joint.join([self.piece(i) for i in ids if i not in self._specials])

    def unknown(self, text: str) -> list[str]:
        return [part for part in dict.fromkeys(self._parts.findall(text)) if part not in self._ids]

    @classmethod
    def read(cls, path: Path) -> VocabularyTokenizer:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(content["kind"], content["vocabulary"], SpecialTokens(**content["special"]))
