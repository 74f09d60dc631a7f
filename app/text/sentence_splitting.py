"""Where sentences end. The library is sentencex (Wikimedia's, rules and abbreviations of some 300 languages); most
texts are one plain sentence and need no library.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import sentencex

_LETTERS = "A-Za-zÀ-ÖØ-öø-ɏА-я"
_PLAIN = re.compile(rf"[{_LETTERS}][{_LETTERS} ,'’\-]*[.!?]?")


def one_plain_sentence(text: str) -> bool:
    """Whether it holds but one sentence, from its first character to its last, and in it no mark, link, placeholder or
    digit. False also where nobody has looked: in other writings, or with rarer signs."""
    return _PLAIN.fullmatch(text) is not None and text[-1] != " " and "  " not in text


# Its time grows with the square of the length where quotes are opened and never closed: 2 s for 100,000 characters.
_WINDOW_CHARACTERS = 4000
_UNUSUAL_SPACE = re.compile(r"[^\S ]")
logger = logging.getLogger(__name__)


def sentence_spans(line: str, language: str) -> list[tuple[int, int]]:
    """Start and end of each sentence of a text without line ends, with the spaces behind it: one span begins where the
    other ends. A language that the library does not know is read with its general rules."""
    base = language.lower().partition("-")[0]
    spans, start = [], 0
    for window in _windows(line):
        for length in _sentence_lengths(base, window):
            spans.append((start, start + length))
            start += length
    assert start == len(line), "the splitter lost characters"
    return spans


def _sentence_lengths(language: str, window: str) -> list[int]:
    # Of spaces that are more than one byte the library cuts off one, and fails: it is shown plain ones.
    try:
        return [len(sentence) for sentence in sentencex.segment(language, _UNUSUAL_SPACE.sub(" ", window))]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what a fault in Rust code becomes: no Exception, and no name
            raise
        logger.exception("The sentence splitter failed; this line is taken as one sentence.")
        return [len(window)]


def _windows(line: str) -> Iterator[str]:
    """Parts that the library reads at once; where a part ends, a sentence does too."""
    start = 0
    while len(line) - start > _WINDOW_CHARACTERS:
        cut = line.rfind(" ", start + _WINDOW_CHARACTERS // 2, start + _WINDOW_CHARACTERS) + 1
        end = cut or start + _WINDOW_CHARACTERS
        yield line[start:end]
        start = end
    if start < len(line):
        yield line[start:]
