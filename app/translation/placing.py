"""Where in a translation stands what was taken out of its source: beside the same words, by the word alignment, and in
the order of the source. Without an alignment, as far on as in the source."""

from __future__ import annotations

from bisect import bisect_left

from app.engine.jobs import Translation
from app.text.characters import CLOSING, unspaced
from app.translation.edits import Edit
from app.translation.sentence import Mark, Sentence


def placed(sentence: Sentence, translation: Translation) -> list[Edit]:
    """The edits that put the sentence's marks into this translation of its clean text."""
    if translation.text == sentence.clean:  # copied, as names and other languages are
        return [Edit(mark.at, mark.at + len(mark.gap), mark.text) for mark in sentence.shown_marks]
    edits: list[Edit] = []
    least = 0
    places = Places(sentence.clean, translation)
    for mark in sentence.shown_marks:
        at = places.of(mark.at)
        if not mark.gap and sentence.clean[mark.at : mark.at + 1] in CLOSING:  # before the comma, as there
            at -= _closing_length(translation.text[:at])
        at = max(least, at)
        if mark.text.isspace():
            at = _between_two_words(translation.text, at, least)
        edits.append(_edit(translation.text, at, mark))
        least = edits[-1].end
    return edits


class Places:
    """Where in a translation of `clean` things belong."""

    def __init__(self, clean: str, translation: Translation) -> None:
        self._clean, self._text = clean, translation.text
        self._closing = _closing_length(clean)
        self._begins: dict[int, int] = {}  # source word -> where the first word for it begins, and the last one ends
        self._ends: dict[int, int] = {}
        for word in translation.alignment or ():
            source, last = word.source_start, len(self._text)
            self._begins[source] = min(word.target_start, self._begins.get(source, last))
            self._ends[source] = max(word.target_end, self._ends.get(source, 0))
        self._sources = sorted(self._ends)

    def of(self, at: int) -> int:
        """Where what stands at `at` of the source belongs: behind the word that stands for the source word before it,
        or before the one that stands for the word after it."""
        if at == 0:
            return 0
        if at >= len(self._clean) - self._closing:
            return len(self._text) - (_closing_length(self._text) if at < len(self._clean) else 0)
        if not self._sources:
            return _between_words(self._text, round(len(self._text) * at / len(self._clean)))
        before = bisect_left(self._sources, at)
        if before:
            return _between_words(self._text, self._ends[self._sources[before - 1]])
        return _between_words(self._text, self._begins[self._sources[0]])


def _between_words(text: str, at: int) -> int:
    """The end of the word and its punctuation that `at` stands in."""
    if at <= 0 or (at < len(text) and text[at - 1].isspace()):
        return max(at - 1, 0)
    while at < len(text) and not text[at].isspace():
        if unspaced(text[at]) and text[at] not in CLOSING:
            break
        at += 1
    return at


def _between_two_words(text: str, at: int, least: int) -> int:
    """Wide spaces stand within the sentence, and apart: at its end, or beside others, they would be other layout."""
    if least <= at and text[at : at + 1] == " " and at > 0:
        return at
    behind = text.find(" ", max(at, least + 1))
    before = text.rfind(" ", least + 1, at)
    return behind if behind >= 0 else before if before >= 0 else at


def _closing_length(text: str) -> int:
    return len(text) - len(text.rstrip("".join(CLOSING)))


def _edit(text: str, at: int, mark: Mark) -> Edit:
    """What parts words in the source takes the place of a space that parts them here."""
    shown, end = mark.text, at
    if mark.gap and text[at : at + 1] == " ":
        end = at + 1
    elif shown.endswith(" ") and not shown.endswith("  ") and (at == len(text) or text[at] in CLOSING):
        shown = shown[:-1]
    if at == 0 and shown.startswith(" ") and not shown.startswith("  "):
        shown = shown[1:]
    return Edit(at, end, shown)
