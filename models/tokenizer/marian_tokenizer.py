"""The tokenizer of Marian's checkpoints in Hugging Face's form.

A SentencePiece model cuts the text, a vocabulary of its own numbers the pieces. Ids and texts are those of
`transformers.MarianTokenizer`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from models.tokenizer.base import ListedTokenizer, Piece, SpecialTokens, pieces_of_model

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's sign for a space
LANGUAGE = re.compile(r">>(?s:.*?)<<")  # at the start of a text: into which language it is to be translated


def is_language(piece: str) -> bool:
    return LANGUAGE.fullmatch(piece) is not None


class MarianTokenizer(ListedTokenizer):
    """One side of a translator.

    vocabulary: the piece of each id.  model: the SentencePiece model that cuts texts.
    writer: the one that joins pieces, where it is another (models with a common vocabulary join with the source's).
    added: pieces that are found in a text as they are spelt, before anything is cut, and their ids; the special tokens
    are always among them. hidden: the ids of those, besides the special tokens, that no text shows.
    """

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
    ) -> None:
        if special.unknown is None:
            raise ValueError("A Marian vocabulary needs an unknown token.")
        super().__init__(vocabulary, special)
        specials = {vocabulary[i]: i for i in special.ids()}
        self._unknown = special.unknown
        self._added = {**(added or {}), **specials}
        self._hidden = frozenset(hidden)
        self._ids = {piece: i for i, piece in enumerate(self.vocabulary)} | self._added
        self._model, self._writer = model, writer
        self._cut = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._join = self._cut if writer is None else sentencepiece.SentencePieceProcessor(model_proto=writer)
        longest_first = sorted(self._added, key=len, reverse=True)
        self._spelt = re.compile("|".join(re.escape(piece) for piece in longest_first))
        self._silent = special.ids() | self._hidden

    def _parts(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Where the parts of a text begin and end that are cut by themselves, and whether each is one token as it is
        spelt: a special token, or a language at the start of what stands between two of them."""
        end = 0
        for match in (*self._spelt.finditer(text), None):
            begin = match.start() if match else len(text)
            language = LANGUAGE.match(text, end, begin)
            if language:
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
            "added": self._added,
            "hidden": sorted(self._hidden),
            "model": base64.b64encode(self._model).decode(),
            "writer": None if self._writer is None else base64.b64encode(self._writer).decode(),
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
        )
