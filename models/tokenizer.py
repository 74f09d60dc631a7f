"""Text to token ids and back. No torch here: the front end tokenizes without loading it.

Offsets are code points of the text given (`text[piece.start:piece.end]`), never bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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
        return frozenset(i for i in (self.pad, self.unknown, self.bos, self.eos) if i is not None)


class Tokenizer(Protocol):
    """What every tokenizer answers. `encode` adds no special tokens; `decode` leaves them out."""

    kind: str
    special: SpecialTokens

    @property
    def size(self) -> int: ...

    def pieces(self, text: str) -> list[Piece]: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def piece(self, token: int) -> str: ...

    def unknown(self, text: str) -> list[str]:
        """The distinct parts of `text` that the vocabulary does not hold, in order of appearance."""
        ...

    def write(self, path: Path) -> None: ...


class VocabularyTokenizer:
    """Tokens from a fixed list: the characters of a text, or its words between white space.

    A text part outside the list becomes the unknown token; without one, `encode` raises ValueError.
    """

    def __init__(self, kind: str, vocabulary: Sequence[str], special: SpecialTokens) -> None:
        if kind not in ("character", "word"):
            raise ValueError(f"A vocabulary holds characters or words, not {kind!r}.")
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("A vocabulary must not name a token twice.")
        specials = special.ids()
        if any(not 0 <= i < len(vocabulary) for i in specials):
            raise ValueError("A special token must be one of the vocabulary.")
        self.kind, self.special = kind, special
        self.vocabulary = tuple(vocabulary)
        self._ids = {piece: i for i, piece in enumerate(self.vocabulary) if i not in specials}
        self._parts = re.compile(r"\S+") if kind == "word" else re.compile(r"(?s).")
        self._joint = " " if kind == "word" else ""
        self._specials = specials

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def pieces(self, text: str) -> list[Piece]:
        found = []
        for match in self._parts.finditer(text):
            token = self._ids.get(match.group(), self.special.unknown)
            if token is None:
                raise ValueError(f"The vocabulary does not hold {match.group()!r}.")
            found.append(Piece(token, self.vocabulary[token], match.start(), match.end()))
        return found

    def encode(self, text: str) -> list[int]:
        return [piece.id for piece in self.pieces(text)]

    def decode(self, ids: Iterable[int]) -> str:
        shown = [i for i in ids if i not in self._specials]
        self._check(min(shown, default=0))
        return self._joint.join([self.vocabulary[i] for i in shown])

    def piece(self, token: int) -> str:
        self._check(token)
        return self.vocabulary[token]

    def _check(self, token: int) -> None:
        if token < 0:  # which Python would count from the end
            raise IndexError(f"There is no token {token}.")

    def unknown(self, text: str) -> list[str]:
        parts = dict.fromkeys(match.group() for match in self._parts.finditer(text))
        return [part for part in parts if part not in self._ids]

    def write(self, path: Path) -> None:
        content = {
            "kind": self.kind,
            "special": {
                "pad": self.special.pad,
                "unknown": self.special.unknown,
                "bos": self.special.bos,
                "eos": self.special.eos,
            },
            "vocabulary": self.vocabulary,
        }
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> VocabularyTokenizer:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(content["kind"], content["vocabulary"], SpecialTokens(**content["special"]))


class SentencePieceTokenizer:
    """A trained SentencePiece model (Kudo and Richardson 2018, arXiv 1808.06226)."""

    kind = "sentencepiece"

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = (
            self._processor.pad_id(),
            self._processor.unk_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
        )
        self.special = SpecialTokens(*(i if i >= 0 else None for i in ids))
        self._specials = self.special.ids()

    @property
    def size(self) -> int:
        return int(self._processor.get_piece_size())

    def pieces(self, text: str) -> list[Piece]:
        mapping: Any = self._processor.encode(text, return_type="offset_mapping")
        found = []
        for token, piece, (start, end) in zip(mapping["ids"], mapping["pieces"], mapping["offsets"], strict=True):
            # SentencePiece counts the space before a word into its first piece
            blank = len(text[start:end]) - len(text[start:end].lstrip())
            found.append(Piece(token, piece, start + blank, end))
        return found

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.encode(text)
        return ids

    def sample(self, texts: Sequence[str], share: float, seed: int) -> list[list[int]]:
        """Texts cut at random, as (texts, share, seed) alone decide: `share` of the merges left out of a BPE model;
        alpha of a unigram model. seed: 0 to 2^31-1."""
        # SentencePiece keeps a generator for each thread, seeded when the thread first draws. A call with a list
        # draws in a thread of its own, so that what was drawn before does not matter.
        sentencepiece.set_random_generator_seed(seed)
        drawn: list[list[int]] = self._processor.encode(
            list(texts), out_type=int, enable_sampling=True, alpha=share, nbest_size=-1, num_threads=1
        )
        return drawn

    def decode(self, ids: Iterable[int]) -> str:
        text: str = self._processor.decode([i for i in ids if i not in self._specials])
        return text

    def piece(self, token: int) -> str:
        return str(self._processor.id_to_piece(token))

    def unknown(self, text: str) -> list[str]:
        pieces = self.pieces(text)
        return list(dict.fromkeys(text[p.start : p.end] for p in pieces if p.id == self.special.unknown))

    def write(self, path: Path) -> None:
        path.write_bytes(self._model)

    @classmethod
    def read(cls, path: Path) -> SentencePieceTokenizer:
        return cls(path.read_bytes())


READERS: dict[str, Callable[[Path], Tokenizer]] = {
    "character": VocabularyTokenizer.read,
    "word": VocabularyTokenizer.read,
    "sentencepiece": SentencePieceTokenizer.read,
}


def read_tokenizer(kind: str, path: Path) -> Tokenizer:
    """The tokenizer of that kind from its file. ValueError for a kind that this version does not know."""
    if kind not in READERS:
        raise ValueError(f"Tokenizer kind {kind!r} is not one of {', '.join(sorted(READERS))}.")
    return READERS[kind](path)
