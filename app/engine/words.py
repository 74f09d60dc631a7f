"""Which word of a text a token belongs to: what alignment links, where a tokenizer cuts words into pieces."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from app.engine.jobs import TokenView

ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana and Chinese characters, written without spaces
LETTERS = rf"[^\W_{ALONE}]"
WORD = re.compile(rf"[{ALONE}]|{LETTERS}+(?:['’\-]{LETTERS}+)*|\S")


def with_words(tokens: Sequence[TokenView], text: str) -> tuple[TokenView, ...]:
    """The tokens with the number of the word in which they begin, from 0. One that begins between two words (a space
    alone) belongs to none."""
    spans = [match.span() for match in WORD.finditer(text)]
    starts = [start for start, _ in spans]

    def word(token: TokenView) -> int | None:
        if token.special or token.start is None or token.end is None or token.start >= token.end:
            return None
        number = bisect_right(starts, token.start) - 1
        return number if number >= 0 and token.start < spans[number][1] else None

    return tuple(replace(token, word=word(token)) for token in tokens)
