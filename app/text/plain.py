"""Short work for what most texts are: one sentence of words alone, with nothing in it to take out or to put back."""

from __future__ import annotations

import re

_LETTERS = "A-Za-zÀ-ÖØ-öø-ɏА-я"
_PLAIN = re.compile(rf"[{_LETTERS}][{_LETTERS} ,'’\-]*[.!?]?")


def one_plain_sentence(text: str) -> bool:
    """Whether it holds but one sentence, from its first character to its last, and in it no mark, link, placeholder or
    digit. False also where nobody has looked: in other writings, or with rarer signs."""
    return _PLAIN.fullmatch(text) is not None and text[-1] != " " and "  " not in text
