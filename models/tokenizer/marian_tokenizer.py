"""The tokenizer of Marian checkpoints in Hugging Face format: a SentencePiece model splits the text, a separate
vocabulary numbers the pieces. Ids and texts equal those of `transformers.MarianTokenizer`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from models.tokenizer.base import LANGUAGE, ListedTokenizer, Piece, SpecialTokens, is_language, pieces_of_model

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's marker of a space
NOTHING = r"(?!)"  # a pattern without a match


class MarianTokenizer(ListedTokenizer):
    """One side of a translator.

    vocabulary: the piece of each id.  model: the SentencePiece model that splits texts.
    writer: the model that joins pieces, if different (models with a shared vocabulary join with the source's).
    added: literal pieces, matched before splitting, with their ids; includes the special tokens.
    hidden: further ids without text, besides the special tokens.
    split_added: added pieces in a text are split like any text (`split_special_tokens` of Hugging Face)."""

    kind = "marian"
    trims = True

    def __init__(
        self,
        vocabulary: Sequence[str],
        special: SpecialTokens,
        model: bytes,
        writer: bytes | None = None,
        added: Mapping[str, int] | None = None,
        hidden: Iterable[int] = (),
        split_added: bool = False,
    ) -> None:
        if special.unknown is None:
            raise ValueError("A Marian vocabulary needs an unknown token.")
        if not model or writer == b"":
            raise ValueError("A Marian tokenizer needs the SentencePiece model that splits its texts.")
        if any(type(i) is not int or not 0 <= i < len(vocabulary) for i in (added or {}).values()):
            raise ValueError("An added piece must have an id of the vocabulary.")
        super().__init__(vocabulary, special)
        self._unknown = special.unknown
        self.added = {**(added or {}), **{vocabulary[i]: i for i in special.ids}}
        self.hidden, self.split_added = frozenset(hidden), split_added
        self._ids = {piece: i for i, piece in enumerate(self.vocabulary)} | self.added
        self.model, self.writer = model, writer
        self._cut = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._join = self._cut if writer is None else sentencepiece.SentencePieceProcessor(model_proto=writer)
        literal = [] if split_added else sorted(self.added, key=len, reverse=True)  # longest first
        self._spelt = re.compile("|".join(map(re.escape, literal)) or NOTHING)
        self._silent = special.ids | self.hidden

    def _parts(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """The (start, end, whole) of consecutive parts of a text. A whole part is one literal token: an added piece, or
        a language token at the start of the text between two of them. Other parts are split by the model."""
        end = 0
        for match in (*self._spelt.finditer(text), None):
            begin = match.start() if match else len(text)
            if language := LANGUAGE.match(text, end, begin):
                yield end, language.end(), True
                end = language.end()
            if end < begin:
                yield end, begin, False
            if match:
                yield begin, match.end(), True
                end = match.end()

    def pieces(self, text: str) -> list[Piece]:
        found = []
        for begin, end, whole in self._parts(text):
            part = text[begin:end]
            parts = [Piece(0, part, 0, len(part))] if whole else pieces_of_model(self._cut, part)
            found += [self._piece(each.piece, begin + each.start, begin + each.end) for each in parts]
        return found

    def _piece(self, piece: str, start: int, end: int) -> Piece:
        token = self._ids.get(piece, self._unknown)
        return Piece(token, self.vocabulary[token], start, end)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for begin, end, whole in self._parts(text):
            pieces = [text[begin:end]] if whole else self._cut.encode(text[begin:end], out_type=str)
            ids += [self._ids.get(piece, self._unknown) for piece in pieces]
        return ids

    def untrimmed(self, ids: Iterable[int]) -> str:
        shown = [self.piece(token) for token in ids if token not in self._silent]
        return str(self._join.decode_pieces(shown)).replace(SPACE, " ")

    def decode(self, ids: Iterable[int]) -> str:
        return self.untrimmed(ids).strip()

    @property
    def languages(self) -> tuple[str, ...]:
        """The language tokens of the vocabulary, such as >>deu<<."""
        return tuple(piece for piece in self.vocabulary if is_language(piece))

    def further(self) -> Mapping[str, object]:
        return {
            "added": self.added,
            "hidden": sorted(self.hidden),
            **({"split_added": True} if self.split_added else {}),
            "model": base64.b64encode(self.model).decode(),
            "writer": None if self.writer is None else base64.b64encode(self.writer).decode(),
        }

    @classmethod
    def read(cls, path: Path) -> MarianTokenizer:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        writer = content["writer"]
        return cls(
            content["vocabulary"],
            SpecialTokens(**content["special"]),
            base64.b64decode(content["model"], validate=True),
            None if writer is None else base64.b64decode(writer, validate=True),
            content["added"],
            content["hidden"],
            content.get("split_added", False),
        )
