"""What every tokenizer answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


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
        return frozenset(i for i in (self.pad, self.unknown, self.bos, self.eos) if i is not None)


class Tokenizer(Protocol):
    """What every tokenizer answers. `encode` adds no special tokens; `decode` leaves them out."""

    kind: str
    special: SpecialTokens
    trims: bool  # whether `decode` leaves out white space around the text, which `untrimmed` has

    @property
    def size(self) -> int: ...

    def pieces(self, text: str) -> list[Piece]: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def untrimmed(self, ids: Iterable[int]) -> str:
        """A text that grows, token by token, by what the next ones add."""
        ...

    def piece(self, token: int) -> str: ...

    def unknown(self, text: str) -> list[str]:
        """The distinct parts of `text` that the vocabulary does not hold, in order of appearance."""
        ...

    def write(self, path: Path) -> None: ...
