"""Where in a translation stands what was taken out of its source: beside the same words, by the word alignment, and in
the order of the source. Without an alignment, as far on as in the source."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.jobs import AlignedWord, Translation
from app.text.characters import CLOSING, unspaced
from app.translation.edits import Edit
from app.translation.sentence import Mark, Sentence


def placed(sentence: Sentence, translation: Translation) -> list[Edit]:
    """The edits that put the sentence's marks into this translation of its clean text."""
    if translation.text == sentence.clean:  # copied, as names and other languages are
        return [Edit(mark.at, mark.at + len(mark.gap), mark.text) for mark in sentence.shown_marks]
    edits: list[Edit] = []
    least = 0
    for mark in sentence.shown_marks:
        at = place(sentence.clean, translation, mark.at)
        if not mark.gap and sentence.clean[mark.at : mark.at + 1] in CLOSING:  # before the comma, as there
            at -= _closing_length(translation.text[:at])
        at = max(least, at)
        edits.append(_edit(translation.text, at, mark))
        least = edits[-1].end
    return edits


def place(clean: str, translation: Translation, at: int) -> int:
    """Where in the translation what stands at `at` of the source belongs: behind the word that stands for the source
    word before it, or before the one that stands for the word after it."""
    text = translation.text
    if at == 0:
        return 0
    ending = _closing_length(clean)
    if at >= len(clean) - ending:
        return len(text) - (_closing_length(text) if at < len(clean) else 0)
    words = translation.alignment
    if not words:
        return _between_words(text, round(len(text) * at / len(clean)))
    return _between_words(text, _beside(words, at))


def _beside(words: Sequence[AlignedWord], at: int) -> int:
    before = [word for word in words if word.source_start < at]
    if before:
        nearest = max(word.source_start for word in before)
        return max(word.target_end for word in before if word.source_start == nearest)
    nearest = min(word.source_start for word in words)
    return min(word.target_start for word in words if word.source_start == nearest)


def _between_words(text: str, at: int) -> int:
    """The end of the word and its punctuation that `at` stands in."""
    if at <= 0 or (at < len(text) and text[at - 1].isspace()):
        return max(at - 1, 0)
    while at < len(text) and not text[at].isspace():
        if unspaced(text[at]) and text[at] not in CLOSING:
            break
        at += 1
    return at


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
