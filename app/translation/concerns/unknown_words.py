"""Words that a model cannot translate. A model that records the words of its corpus is made to copy the others, since
what it would invent for them is noise; words in the letters of another script are islands. Notices mark both."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from app.engine.interface import Notice, TranslationResult
from app.engine.output.notices import untrained_words
from app.text.glossary_matching import TermMatcher
from app.text.islands import foreign_words
from models.language_names import ENGLISH_NAMES

_MOST_COPIED_WORDS = 12  # in a sentence; a sentence of unknown words is in another language


def copying_matcher(text: str, known_words: Collection[str]) -> TermMatcher | None:
    """A glossary of the unknown words of a sentence, each its own translation; neighbours are one term. None if there
    are none, or so many that nothing is left to translate. Of one sentence, not of a whole text: how a sentence is
    translated must not depend on the sentences around it."""
    runs: list[tuple[int, int]] = []
    for start, end in untrained_words(known_words, text):
        if runs and text[runs[-1][1] : start] == " ":
            runs[-1] = runs[-1][0], end
        else:
            runs.append((start, end))
    if not 0 < len(runs) <= _MOST_COPIED_WORDS:
        return None
    return TermMatcher({text[start:end]: text[start:end] for start, end in runs})


def with_foreign_words_marked(source: str, language: str, translation: TranslationResult) -> TranslationResult:
    """With a notice for each word in letters that the source language is not written in."""
    marked = {(notice.start, notice.end) for notice in translation.notices if notice.code == "unknown_words"}
    name = ENGLISH_NAMES.get(language, language)
    notices = [
        Notice("unknown_words", f"“{source[start:end]}” is in letters of another script than {name}.", start, end)
        for start, end in foreign_words(source, language)
        if (start, end) not in marked
    ]
    return replace(translation, notices=(*translation.notices, *notices)) if notices else translation
