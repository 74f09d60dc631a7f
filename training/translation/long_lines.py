"""Parts of a line that is longer than a model takes: sentences, and of a sentence that is too long itself, parts of
similar length."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

WINDOW = 10_000  # characters: sentencex takes quadratic time where a quote is never closed
UNUSUAL_SPACE = re.compile(r"[^\S ]")  # sentencex fails on spaces of several bytes
WITHOUT_SPACES = {"zh", "ja", "th", "lo", "km", "my", "yue", "wuu"}  # languages written without spaces


def parts_that_fit(line: str, language: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """The parts of a line, none of them empty, that `fits` accepts, or single characters."""
    import sentencex

    spaced = UNUSUAL_SPACE.sub(" ", line)
    for window in _halved(spaced, lambda text: len(text) <= WINDOW):
        for sentence in sentencex.segment(language.replace("_", "-").partition("-")[0].lower(), window):
            if sentence.strip():
                yield from _halved(sentence.strip(), fits)


def _halved(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """Halves a text, at the space nearest to the middle if there is one, until every part fits."""
    if len(text) <= 1 or fits(text):
        yield text
        return
    middle = len(text) // 2
    before, behind = text.rfind(" ", 1, middle + 1), text.find(" ", middle, len(text) - 1)
    cuts = [cut for cut in (before, behind) if cut > 0]
    cut = min(cuts, key=lambda place: abs(place - middle)) if cuts else middle
    for part in (text[:cut].strip(), text[cut:].strip()):
        if part:
            yield from _halved(part, fits)


def white_space_between(language: str | None) -> str:
    """What joins translated parts in this language."""
    bare = (language or "").replace("_", "-").partition("-")[0].lower()
    return "" if bare in WITHOUT_SPACES else " "
