"""Sentences in capital letters. A model knows few words in capitals, so it reads the sentence in lower case, and its
translation is written in capitals. Both conversions keep the length of the text, so that offsets hold."""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.text.character_references import reference_spans
from app.text.language_codes import base_language
from app.text.protected_spans import protected_spans, without_protected

_LEAST_LETTERS = 7  # fewer are an abbreviation (UNESCO), which models know
_WORD = re.compile(r"[^\W\d_]+")
_FIRST_LETTER = re.compile(r"[^\W\d_]")
_ENGLISH_PRONOUN = re.compile(r"\bi\b")
_TURKISH = ("tr", "az")  # I is ı there, and İ is i


def in_capitals(text: str) -> bool:
    """Whether all letters of a text are capitals, and there are enough of them for a sentence or a heading."""
    first_word = _WORD.search(text)
    if first_word is None or not first_word[0].isupper():  # a quick test for most texts
        return False
    words = without_protected(text)
    return words.isupper() and sum(map(str.isupper, words)) >= _LEAST_LETTERS


def without_capitals(text: str, language: str) -> str:
    """The text in lower case except for its first letter, and for links and placeholders."""
    base = base_language(language)
    source = text.replace("I", "ı").replace("İ", "i") if base in _TURKISH else text
    lowered = "".join(map(_lower, source))
    if base == "en":
        lowered = _ENGLISH_PRONOUN.sub("I", lowered)
    first = _FIRST_LETTER.search(lowered)
    if first is not None:
        lowered = lowered[: first.start()] + text[first.start()] + lowered[first.end() :]
    return _with_protected_of(text, lowered)


def with_capitals(text: str, language: str, kept: Iterable[tuple[int, int]] = ()) -> str:
    """The text in capitals, except links, placeholders, the spans `kept`, and character references: &nbsp; in capitals
    is no reference."""
    source = text.replace("i", "İ") if base_language(language) in _TURKISH else text
    return _with_protected_of(text, "".join(map(_upper, source)), [*kept, *reference_spans(text)])


def _with_protected_of(text: str, changed: str, kept: Iterable[tuple[int, int]] = ()) -> str:
    for start, end in [*((span.start, span.end) for span in protected_spans(text)), *kept]:
        changed = changed[:start] + text[start:end] + changed[end:]
    return changed


def _lower(character: str) -> str:
    return low if len(low := character.lower()) == 1 else character


def _upper(character: str) -> str:
    return "ẞ" if character == "ß" else high if len(high := character.upper()) == 1 else character
