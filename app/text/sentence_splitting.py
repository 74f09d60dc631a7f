"""Sentence splitting, by sentencex (Wikimedia; rules and abbreviations of some 300 languages)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import sentencex

from app.text.language_codes import base_language

# sentencex takes quadratic time if quotes are never closed: 2 s for 100,000 characters.
_WINDOW_CHARACTERS = 4000
_UNUSUAL_SPACE = re.compile(r"[^\S ]")
_LOWERCASE_BEGINNING = re.compile(r"[^\w]*[^\W\d_]")
_NEXT_SENTENCE = re.compile(r"(?<=\w[.!?…])(\s+)(\w)")
logger = logging.getLogger(__name__)


def sentence_spans(line: str, language: str) -> list[tuple[int, int]]:
    """Contiguous spans of a line's sentences, trailing spaces included. Unknown languages use general rules."""
    base = base_language(language)
    spans, start = [], 0
    for window in _windows(line):
        for length in _sentence_lengths(base, window):
            spans.append((start, start + length))
            start += length
    assert start == len(line), "the splitter lost characters"
    return spans


def _sentence_lengths(language: str, window: str) -> list[int]:
    window = _with_capitals(window)
    try:
        # sentencex cuts one byte off a space, and fails on multi-byte spaces.
        return [len(sentence) for sentence in sentencex.segment(language, _UNUSUAL_SPACE.sub(" ", window))]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a Rust panic, which is no Exception and cannot be imported
            raise
        logger.exception("The sentence splitter failed; this line is taken as one sentence.")
        return [len(window)]


def _with_capitals(window: str) -> str:
    """Capitalises the word after each full stop in a text that begins in lower case. sentencex splits only before
    capitals, and knows the full stops of abbreviations. The length of the text does not change."""
    beginning = _LOWERCASE_BEGINNING.match(window)
    if beginning is None or not beginning[0][-1].islower():
        return window
    return _NEXT_SENTENCE.sub(
        lambda match: match[1] + (match[2].upper() if len(match[2].upper()) == 1 else match[2]), window
    )


def _windows(line: str) -> Iterator[str]:
    """Cuts a line into chunks of at most `_WINDOW_CHARACTERS`; a sentence does not continue over the end of a chunk."""
    start = 0
    while len(line) - start > _WINDOW_CHARACTERS:
        cut = line.rfind(" ", start + _WINDOW_CHARACTERS // 2, start + _WINDOW_CHARACTERS) + 1
        end = cut or start + _WINDOW_CHARACTERS
        yield line[start:end]
        start = end
    if start < len(line):
        yield line[start:]
