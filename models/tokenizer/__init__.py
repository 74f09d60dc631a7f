"""Tokenizers: text to token ids and back. No torch here: the front end tokenizes without it. Offsets are code points of
the text (`text[piece.start:piece.end]`), never bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from models.tokenizer.base import Piece as Piece
from models.tokenizer.base import SpecialTokens as SpecialTokens
from models.tokenizer.base import Tokenizer as Tokenizer
from models.tokenizer.base import is_language as is_language
from models.tokenizer.marian_tokenizer import MarianTokenizer as MarianTokenizer
from models.tokenizer.sentencepiece_tokenizer import SentencePieceTokenizer as SentencePieceTokenizer
from models.tokenizer.vocabulary_tokenizer import VocabularyTokenizer as VocabularyTokenizer

READERS: dict[str, Callable[[Path], Tokenizer]] = {
    "character": VocabularyTokenizer.read,
    "word": VocabularyTokenizer.read,
    "sentencepiece": SentencePieceTokenizer.read,
    "marian": MarianTokenizer.read,
}


def read_tokenizer(kind: str, path: Path) -> Tokenizer:
    """Reads a tokenizer of this kind from its file. ValueError for an unknown kind."""
    if kind not in READERS:
        raise ValueError(f"Tokenizer kind {kind!r} is not one of {', '.join(sorted(READERS))}.")
    return READERS[kind](path)
