"""Words of a text, and which word each token belongs to: what alignment links."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from app.engine.interface import TokenView
from app.engine.output.detokenizer import BYTE_PIECE
from models.tokenizer import is_language

IDEOGRAPHS = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana and Chinese characters, written without spaces
)
COMBINING, ZERO_WIDTH_SPACE = (
    "\u0300",
    "\u200b",
)  # stands for whatever is written onto a character; a space that takes no room
LETTER = rf"[^\W_{IDEOGRAPHS}]{COMBINING}*"
WORD_PATTERN = re.compile(
    rf"[{IDEOGRAPHS}]{COMBINING}*|(?:{LETTER})+(?:['’\-](?:{LETTER})+)*|[^\s{COMBINING}]{COMBINING}*"
)


def word_spans(text: str) -> list[tuple[int, int]]:
    """First and last code point + 1 of each word: letters with what is written onto them (accents, vowel signs,
    joiners), one Chinese character or kana, or one of any other characters."""
    return [
        match.span()
        for match in WORD_PATTERN.finditer(text if text.isascii() else "".join(map(_character_class, text)))
    ]


def _character_class(character: str) -> str:
    if character == ZERO_WIDTH_SPACE:
        return " "
    category = unicodedata.category(character)
    written_onto = category == "Cf" or category[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
    return COMBINING if written_onto else character


def with_word_numbers(tokens: Sequence[TokenView], text: str) -> tuple[TokenView, ...]:
    """The tokens with the number of the first word that they have a part of, from 0. One that has none (a space alone)
    belongs to none, as does a language that the text is asked for in (>>deu<<), which is no part of the sentence. Where
    a character is cut into bytes, the last of them stands for it and the others for nothing: they go with the last."""
    spans = sentence_word_spans(tokens, text)
    ends = [end for _, end in spans]

    def word(token: TokenView) -> int | None:
        if token.special or token.start is None or token.end is None or token.start >= token.end:
            return None
        number = bisect_right(ends, token.start)
        return number if number < len(spans) and spans[number][0] < token.end else None

    found, behind = list[TokenView](), None
    for token in reversed(tokens):
        if behind is not None and is_byte_of(token, behind):
            found.append(replace(token, word=behind.word))
        else:
            found.append(replace(token, word=word(token)))
            behind = found[-1]
    return tuple(reversed(found))


def sentence_word_spans(tokens: Sequence[TokenView], text: str) -> list[tuple[int, int]]:
    """The words that the tokens' numbers count: those of the text, without a language that it is asked for in."""
    if tokens and is_language(tokens[0].piece) and tokens[0].end is not None:
        text = " " * tokens[0].end + text[tokens[0].end :]
    return word_spans(text)


def is_byte_of(token: TokenView, behind: TokenView) -> bool:
    """Whether it is a byte of the character that the next token with a text begins with."""
    is_byte = BYTE_PIECE.fullmatch(token.piece) is not None
    return is_byte and token.start is not None and token.start == token.end == behind.start
