"""Characters, or words separated by white space, from a fixed vocabulary."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from models.tokenizer.base import ListedTokenizer, Piece, SpecialTokens

LETTERS_OR_SPACE = re.compile(r"[A-Za-z]|[^A-Za-z]+")


def only_letters(text: str) -> str:
    """Lower-case letters of English, and one space in place of anything else: the normalisation of Zhang et al., Dive
    into Deep Learning."""
    return re.sub(r"[^A-Za-z]+", " ", text).lower()


def characters_with_marks(text: str) -> Iterator[tuple[int, int]]:
    """The (start, end) of each character with the marks after it, of each syllable of Hangul letters and of CRLF:
    their normal forms (NFC, NFD) make up that of the text."""
    start = 0
    for place in range(1, len(text)):
        following = text[place]
        if following.isascii():
            belongs = following == "\n" and text[place - 1] == "\r"
        else:
            belongs = unicodedata.category(following)[0] == "M" or "\u1160" <= following <= "\u11ff"
        if not belongs:
            yield start, place
            start = place
    if text:
        yield start, len(text)


class VocabularyTokenizer(ListedTokenizer):
    """A part outside the vocabulary becomes the unknown token; without one, `encode` raises ValueError. Of characters,
    spellings that Unicode and editors take for the same are: é in one or two code points, and any line end.
    letters_only: reads characters as `only_letters` writes them."""

    def __init__(
        self, kind: str, vocabulary: Sequence[str], special: SpecialTokens, *, letters_only: bool = False
    ) -> None:
        if kind not in ("character", "word"):
            raise ValueError(f"A vocabulary holds characters or words, not {kind!r}.")
        super().__init__(vocabulary, special)
        specials = special.ids
        if any(not 0 <= i < len(vocabulary) for i in specials):
            raise ValueError("A special token must be one of the vocabulary.")
        if letters_only and kind != "character":
            raise ValueError("Only a vocabulary of characters can be of letters only.")
        self.kind, self.letters_only = kind, letters_only
        self._ids = {piece: i for i, piece in enumerate(self.vocabulary) if i not in specials}
        self._parts = re.compile(r"\S+" if kind == "word" else r"(?s).")
        if letters_only:
            self._parts = LETTERS_OR_SPACE
        self._joint = " " if kind == "word" else ""
        self._specials = specials

    def pieces(self, text: str) -> list[Piece]:
        found = []
        for part, start, end in self._places(text):
            token = self._ids.get(part, self.special.unknown)
            if token is None:
                raise ValueError(f"The vocabulary does not hold {part!r}.")
            found.append(Piece(token, self.vocabulary[token], start, end))
        return found

    def _places(self, text: str) -> Iterator[tuple[str, int, int]]:
        """The words or characters to look up, with their places in the text."""
        if self.letters_only:
            yield from ((only_letters(match.group()), *match.span()) for match in self._parts.finditer(text))
            return
        if self.kind == "word" or (text.isascii() and "\r" not in text):
            yield from ((match.group(), *match.span()) for match in self._parts.finditer(text))
            return
        spelt: dict[str, str] = {}  # of this text: its characters recur
        for start, end in characters_with_marks(text):
            own = text[start:end]
            spelling = own if own in self._ids else spelt.get(own) or spelt.setdefault(own, self._spelling(own))
            for place, part in enumerate(spelling[:-1], start=start):
                yield part, min(place, end), min(place + 1, end)
            yield spelling[-1], min(start + len(spelling) - 1, end), end

    def _spelling(self, own: str) -> str:
        """The vocabulary's spelling of a character with its marks, or of a line end; without one, the composed one."""
        spellings = [unicodedata.normalize("NFC", own), unicodedata.normalize("NFD", own), own]
        if own in ("\r", "\r\n"):
            spellings.insert(0, "\n")
        known = (spelling for spelling in spellings if all(part in self._ids for part in spelling))
        return next(known, spellings[0])

    def decode(self, ids: Iterable[int]) -> str:
        return self._joint.join([self.piece(i) for i in ids if i not in self._specials])

    def unknown(self, text: str) -> list[str]:
        unknown = [place for place in self._places(text) if place[0] not in self._ids]
        places = {part: part if self.letters_only else text[start:end] for part, start, end in unknown}
        return list(dict.fromkeys(places.values()))

    def further(self) -> Mapping[str, object]:
        return {"letters_only": True} if self.letters_only else {}

    @classmethod
    def read(cls, path: Path) -> VocabularyTokenizer:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        kind, vocabulary, special = content["kind"], content["vocabulary"], SpecialTokens(**content["special"])
        return cls(kind, vocabulary, special, letters_only=content.get("letters_only") is True)
