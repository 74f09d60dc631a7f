"""Text to token ids and back. No torch here: the front end tokenizes without loading it.

Offsets are code points of the text given (`text[piece.start:piece.end]`), never bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from models.tokenizer.base import Piece, SpecialTokens, Tokenizer
from models.tokenizer.marian_tokenizer import MarianTokenizer, is_language
from models.tokenizer.sentencepiece_tokenizer import SentencePieceTokenizer
from models.tokenizer.vocabulary_tokenizer import VocabularyTokenizer

__all__ = [
    "MarianTokenizer",
    "Piece",
    "SentencePieceTokenizer",
    "SpecialTokens",
    "Tokenizer",
    "VocabularyTokenizer",
    "is_language",
    "read_tokenizer",
]

READERS: dict[str, Callable[[Path], Tokenizer]] = {
    "character": VocabularyTokenizer.read,
    "word": VocabularyTokenizer.read,
    "sentencepiece": SentencePieceTokenizer.read,
    "marian": MarianTokenizer.read,
}


def read_tokenizer(kind: str, path: Path) -> Tokenizer:
    """The tokenizer of that kind from its file. ValueError for a kind that this version does not know."""
    if kind not in READERS:
        raise ValueError(f"Tokenizer kind {kind!r} is not one of {', '.join(sorted(READERS))}.")
    return READERS[kind](path)
