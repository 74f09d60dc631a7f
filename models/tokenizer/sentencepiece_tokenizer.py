"""SentencePiece subwords."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from models.tokenizer.base import LANGUAGE, Piece, SpecialTokens, Tokenizer, is_language, pieces_of_model


class SentencePieceTokenizer(Tokenizer):
    """A trained SentencePiece model (Kudo and Richardson 2018, arXiv 1808.06226).

    languages: the control symbols that select a target language (>>de<<) -> their ids. A text encodes to one only where
    it begins with it, as in OPUS-MT's models."""

    kind = "sentencepiece"

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
        self.special = SpecialTokens(*(i if i >= 0 else None for i in ids))
        self._specials, self.size = self.special.ids, int(processor.get_piece_size())
        controls = (i for i in range(self.size) if processor.is_control(i))
        self.languages = {piece: i for i in controls if is_language(piece := processor.id_to_piece(i))}

    def pieces(self, text: str) -> list[Piece]:
        if self.languages and (begin := self._language(text)):
            first = Piece(self.languages[begin], begin, 0, len(begin))
            rest = pieces_of_model(self._processor, text[len(begin) :])
            return [first, *(Piece(p.id, p.piece, p.start + first.end, p.end + first.end) for p in rest)]
        return list(pieces_of_model(self._processor, text))

    def encode(self, text: str) -> list[int]:
        if self.languages and (begin := self._language(text)):
            return [self.languages[begin], *self._processor.encode(text[len(begin) :])]
        ids: list[int] = self._processor.encode(text)
        return ids

    def _language(self, text: str) -> str:
        """The language token at the start of a text, or ""."""
        begin = LANGUAGE.match(text)
        return begin.group() if begin and begin.group() in self.languages else ""

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        begins = [self._language(text) for text in texts] if self.languages else [""] * len(texts)
        rest = [text[len(begin) :] for text, begin in zip(texts, begins, strict=True)]
        ids: list[list[int]] = self._processor.encode(rest, num_threads=threads)
        return [[self.languages[begin], *row] if begin else row for begin, row in zip(begins, ids, strict=True)]

    def decode(self, ids: Iterable[int]) -> str:
        text: str = self._processor.decode([i for i in ids if i not in self._specials])
        return text

    def piece(self, token: int) -> str:
        return str(self._processor.id_to_piece(token))

    def write(self, path: Path) -> None:
        path.write_bytes(self.model)

    @classmethod
    def read(cls, path: Path) -> SentencePieceTokenizer:
        return cls(path.read_bytes())
