"""The interface of all tokenizers, and their shared base classes."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import sentencepiece

LANGUAGE = re.compile(r">>(?s:.*?)<<")  # target language at the start of a text


def is_language(piece: str) -> bool:
    return LANGUAGE.fullmatch(piece) is not None


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of a text: `piece` is its vocabulary entry, `text[start:end]` the text it covers."""

    id: int
    piece: str
    start: int
    end: int


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the tokens without text; None where a vocabulary has no such token."""

    pad: int | None = 0
    unknown: int | None = None
    bos: int | None = None
    eos: int | None = None

    @cached_property
    def ids(self) -> frozenset[int]:
        return frozenset(cast(set[int], {self.pad, self.unknown, self.bos, self.eos} - {None}))


class Tokenizer(ABC):
    """`encode` adds no special tokens; `decode` leaves them out."""

    kind: str
    special: SpecialTokens
    size: int
    trims = False  # whether `decode` strips white space that `untrimmed` keeps

    @abstractmethod
    def pieces(self, text: str) -> list[Piece]: ...

    def encode(self, text: str) -> list[int]:
        return [piece.id for piece in self.pieces(text)]

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`encode` of each text. threads: at most, where the tokenizer can use them."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str: ...

    def untrimmed(self, ids: Iterable[int]) -> str:
        """`decode` with surrounding white space, so that further tokens only append text."""
        return self.decode(ids)

    @abstractmethod
    def piece(self, token: int) -> str: ...

    def unknown(self, text: str) -> list[str]:
        """The distinct parts of `text` that are not in the vocabulary, in order of appearance."""
        pieces = self.pieces(text)
        return list(dict.fromkeys(text[p.start : p.end] for p in pieces if p.id == self.special.unknown))

    @abstractmethod
    def write(self, path: Path) -> None: ...


class ListedTokenizer(Tokenizer):
    """A tokenizer with its own vocabulary in a JSON file. vocabulary: the piece of each id."""

    def __init__(self, vocabulary: Sequence[str], special: SpecialTokens) -> None:
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("A vocabulary must not name a token twice.")
        "".join(vocabulary).encode()  # UnicodeEncodeError, a ValueError, for half a character, which no text can hold
        self.vocabulary, self.special, self.size = tuple(vocabulary), special, len(vocabulary)

    def piece(self, token: int) -> str:
        if token < 0:  # a negative index would count from the end
            raise IndexError(f"There is no token {token}.")
        return self.vocabulary[token]

    def further(self) -> Mapping[str, object]:
        """Additional fields of the file."""
        return {}

    def write(self, path: Path) -> None:
        own = {"kind": self.kind, "special": asdict(self.special), **self.further(), "vocabulary": self.vocabulary}
        path.write_text(json.dumps(own, ensure_ascii=False, indent=1), encoding="utf-8")


def pieces_of_model(model: sentencepiece.SentencePieceProcessor, text: str) -> Iterator[Piece]:
    """SentencePiece includes the space before a word in the word's first piece; the offsets here exclude it."""
    mapping: Any = model.encode(text, return_type="offset_mapping")
    for token, piece, (start, end) in zip(mapping["ids"], mapping["pieces"], mapping["offsets"], strict=True):
        yield Piece(token, piece, end - len(text[start:end].lstrip()), end)
