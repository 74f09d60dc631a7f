"""What every tokenizer answers, and what most of them answer alike."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import sentencepiece


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of a text: `text[start:end]` is what it stands for; `piece` is its name in the vocabulary."""

    id: int
    piece: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the tokens that stand for no text; None where a vocabulary has no such token."""

    pad: int | None = 0
    unknown: int | None = None
    bos: int | None = None
    eos: int | None = None

    def ids(self) -> frozenset[int]:
        ids = {self.pad, self.unknown, self.bos, self.eos} - {None}
        return frozenset(cast(set[int], ids))


class Tokenizer(ABC):
    """`encode` adds no special tokens; `decode` leaves them out."""

    kind: str
    special: SpecialTokens
    size: int
    trims = False  # whether `decode` leaves out white space around the text, which `untrimmed` has

    @abstractmethod
    def pieces(self, text: str) -> list[Piece]: ...

    def encode(self, text: str) -> list[int]:
        return [piece.id for piece in self.pieces(text)]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str: ...

    def untrimmed(self, ids: Iterable[int]) -> str:
        """A text that grows, token by token, by what the next ones add."""
        return self.decode(ids)

    @abstractmethod
    def piece(self, token: int) -> str: ...

    def unknown(self, text: str) -> list[str]:
        """The distinct parts of `text` that the vocabulary does not hold, in order of appearance."""
        pieces = self.pieces(text)
        return list(dict.fromkeys(text[p.start : p.end] for p in pieces if p.id == self.special.unknown))

    @abstractmethod
    def write(self, path: Path) -> None: ...


class ListedTokenizer(Tokenizer):
    """A tokenizer with a vocabulary of its own, in a JSON file. vocabulary: the piece of each id."""

    def __init__(self, vocabulary: Sequence[str], special: SpecialTokens) -> None:
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("A vocabulary must not name a token twice.")
        self.vocabulary, self.special, self.size = tuple(vocabulary), special, len(vocabulary)

    def piece(self, token: int) -> str:
        if token < 0:  # which Python would count from the end
            raise IndexError(f"There is no token {token}.")
        return self.vocabulary[token]

    def further(self) -> Mapping[str, object]:
        """What else the file holds."""
        return {}

    def write(self, path: Path) -> None:
        own = {"kind": self.kind, "special": asdict(self.special)}
        content = {**own, **self.further(), "vocabulary": self.vocabulary}
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


def pieces_of_model(model: sentencepiece.SentencePieceProcessor, text: str) -> Iterator[Piece]:
    """SentencePiece counts the space before a word into its first piece; here it belongs to none."""
    mapping: Any = model.encode(text, return_type="offset_mapping")
    for token, piece, (start, end) in zip(mapping["ids"], mapping["pieces"], mapping["offsets"], strict=True):
        yield Piece(token, piece, end - len(text[start:end].lstrip()), end)
