"""Text from tokens that come a few at a time, at a cost that does not grow with the tokens before them.

A tokenizer's `decode` of all tokens says what the text is; here each token is decoded once, with what its text may
depend on: whether a text has begun (a first space is left out), the bytes of a character that is not whole yet, and,
where a tokenizer trims its texts, white space that may turn out to be the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from models.tokenizer import Tokenizer

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"
MOST_OPEN_BYTES = 3  # of the four that a character may have


class Detokenizer:
    """The texts that `feed` gives, and `finish` at the end, join to `tokenizer.decode` of all tokens fed."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = tokenizer.special.ids()
        self._held: list[int] = []  # tokens of bytes that may begin a character: at most 3
        self._silent: dict[int, None] = {}  # tokens before the first that brought text; each once says all
        self._anchor: tuple[int, int] | None = None  # once a text has begun: a token that is text, and how long that is
        self._blank: str | None = (
            None  # of a tokenizer that trims: white space behind what was given; None: nothing was
        )

    @property
    def held(self) -> int:
        """How many of the last tokens no text was given for yet: they may begin a character."""
        return len(self._held)

    def feed(self, tokens: Iterable[int]) -> str:
        """The text that is certain now and was not before; "" where the next token may still change it."""
        settled = self._held + [token for token in tokens if token not in self._special]
        self._held = []
        tail = self._bytes_at_end(settled)
        if open_bytes := len(tail) - settled_byte_count(tail):
            self._held = settled[-open_bytes:]
            del settled[-open_bytes:]
        return self._trimmed(self._decode(settled))

    def finish(self) -> str:
        """The rest: what is left of a character that never became whole."""
        rest, self._held = self._held, []
        return self._trimmed(self._decode(rest))

    def _trimmed(self, text: str) -> str:
        """Without white space before the first word, and with what was held back only once another word follows."""
        if not self._tokenizer.trims:
            return text
        text = text.lstrip() if self._blank is None else self._blank + text
        shown = text.rstrip()
        if shown or self._blank is not None:
            self._blank = text[len(shown) :]
        return shown

    def _bytes_at_end(self, tokens: list[int]) -> list[int]:
        """Those that the tokens end with, as far back as a character reaches."""
        found: list[int] = []
        for token in reversed(tokens[-MOST_OPEN_BYTES:]):
            if (byte := self._byte(token)) is None:
                break
            found.insert(0, byte)
        return found

    def _byte(self, token: int) -> int | None:
        match = BYTE_PIECE.fullmatch(self._tokenizer.piece(token))
        return None if match is None else int(match[1], 16)  # a word that is spelt so is held no longer than a byte

    def _decode(self, tokens: list[int]) -> str:
        if not tokens:
            return ""
        if self._anchor is not None:
            anchor, length = self._anchor
            return self._tokenizer.untrimmed([anchor, *tokens])[length:]
        text = self._tokenizer.untrimmed([*self._silent, *tokens])
        if text:
            self._anchor = find_anchor(self._tokenizer)
        else:
            self._silent.update(dict.fromkeys(tokens))
        return text


def find_anchor(tokenizer: Tokenizer) -> tuple[int, int]:
    """A token whose text is whole by itself, and the length of that text: what follows it is not a text's beginning."""
    for token in reversed(range(tokenizer.size)):
        text = tokenizer.untrimmed([token])
        if text and REPLACEMENT_CHARACTER not in text:
            return token, len(text)
    raise ValueError("No token of this vocabulary stands for a text.")


def settled_byte_count(values: list[int]) -> int:
    """How many of these bytes no further byte can change: all but the beginning of a character at their end."""
    for place, value in enumerate(values):
        following = values[place + 1 : place + character_length(value)]
        if len(following) < character_length(value) - 1 and all(0x80 <= each < 0xC0 for each in following):
            return place
    return len(values)


def character_length(first: int) -> int:
    """How many bytes a character of UTF-8 has that begins with this one; 1 if none does."""
    return 2 if 0xC0 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4 if 0xF0 <= first < 0xF8 else 1
