"""How tokens join into words, so that a required term does not match inside a longer word.

Words consist of letters, digits and marks. Characters of scripts without spaces (Chinese, Japanese, Thai and others)
count as words of their own, and so do those of Korean, where suffixes follow words without a space."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.tokenizer.base import Tokenizer
from models.tokenizer.marian_tokenizer import SPACE

UNSPACED = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1100, 0x11FF)),  # Thai, Lao; Burmese; Khmer; Hangul
    *((0x2E80, 0xA4CF), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFAFF)),  # Han, Kana, Yi; Hangul; Han
    *((0xFF66, 0xFFDC), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF)),  # Kana, Hangul; Kana; Han
)
LEAD_BYTES_OF_WORDS = 0xE0  # lower first bytes of UTF-8 begin Latin, Greek, Cyrillic and similar scripts


@dataclass(frozen=True, slots=True, eq=False)
class WordParts:
    """By token id [V]. continues: the token starts inside a word if a word precedes it; open: it ends inside a word if
    one follows. Two tokens belong to one word if the first is open and the second continues. kinds [V + 1]: 2 *
    continues + open; the last entry stands for ids beyond the vocabulary."""

    continues: npt.NDArray[np.bool_]
    open: npt.NDArray[np.bool_]
    kinds: npt.NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", np.append(2 * self.continues + self.open, 0).astype(np.int64))


def word_parts(tokenizer: Tokenizer) -> WordParts:
    """Special tokens, and all tokens of word tokenizers, neither continue words nor can be continued."""
    found = np.zeros((2, tokenizer.size), dtype=bool)
    if tokenizer.kind == "word":
        return WordParts(*found)
    for token in {*range(tokenizer.size)} - tokenizer.special.ids:
        found[:, token] = _ends(tokenizer.piece(token), pieces=tokenizer.kind != "character")
    return WordParts(*found)


def _ends(piece: str, *, pieces: bool) -> tuple[bool, bool]:
    """Whether first and last character belong to a word. pieces: SentencePiece, which has byte pieces (<0x41>)."""
    if pieces and len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        byte = int(piece[3:5], 16)
        if byte < 0x80:
            return (in_word(chr(byte)),) * 2
        return byte < LEAD_BYTES_OF_WORDS, True
    return bool(piece) and in_word(piece[0]), bool(piece) and in_word(piece[-1])


def in_word(character: str) -> bool:
    if character == SPACE or unicodedata.category(character)[0] not in "LMN":
        return False
    return not any(first <= ord(character) <= last for first, last in UNSPACED)
