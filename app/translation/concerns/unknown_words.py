"""Words that a demo model was not trained on: it is made to copy them, since what it would invent for them is noise."""

from __future__ import annotations

from collections.abc import Collection

from app.engine.output.notices import untrained_words
from app.text.glossary_matching import TermMatcher

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
