"""Subwords of a SentencePiece model."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from models.tokenizer.cuts import Cutter, DroppedMerges, LikelyCuts
from models.tokenizer.protocol import Piece, SpecialTokens

WORDS = re.compile("▁[^▁]*|[^▁]+")  # of a normalised text


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
        self._cutters: dict[tuple[str, float], tuple[Cutter, dict[str, int]]] = {}

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

    def sample(self, texts: Sequence[str], share: float, seed: int, algorithm: str = "bpe") -> list[list[int]]:
        """Texts cut at random, as these arguments alone decide, in every process and on every machine alike: `share`
        of the merges left out of a bpe model; alpha of a unigram model. Words must not reach over spaces, as in those
        of `training.vocabulary` they do not."""
        generator, (of, known) = random.Random(seed), self._cutter(share, algorithm)
        unknown: int = self._processor.unk_id()
        drawn = []
        for text in self._processor.normalize(list(texts)):
            ids: list[int] = []
            for word in WORDS.findall(text):
                ids += [known.get(piece, unknown) for piece in of.cut(word, generator)]
            if unknown in ids:  # it is one token wherever there are several in a row, as in `encode`
                ids = [i for i, before in zip(ids, [None, *ids], strict=False) if i != unknown or before != unknown]
            drawn.append(ids)
        return drawn

    def _cutter(self, share: float, algorithm: str) -> tuple[Cutter, dict[str, int]]:
        """Kept from one epoch to the next with what it knows of words, and the id of each piece."""
        if (algorithm, share) not in self._cutters:
            known = {self._processor.id_to_piece(i): i for i in range(self.size) if self._is_text(i)}
            cutter = LikelyCuts if algorithm == "unigram" else DroppedMerges
            scores = {piece: self._processor.get_score(i) for piece, i in known.items()}
            self._cutters[algorithm, share] = cutter(scores, share), known
        return self._cutters[algorithm, share]

    def _is_text(self, token: int) -> bool:
        of = self._processor
        return not (of.is_control(token) or of.is_unknown(token) or of.is_unused(token) or of.is_byte(token))

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
