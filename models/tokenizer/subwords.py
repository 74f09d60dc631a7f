"""Subwords of a SentencePiece model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from models.tokenizer.protocol import Piece, SpecialTokens


class SentencePieceTokenizer:
    """A trained SentencePiece model (Kudo and Richardson 2018, arXiv 1808.06226)."""

    kind = "sentencepiece"
    trims = False

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

    untrimmed = decode

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
