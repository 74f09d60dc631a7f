"""Puts what the model did not read (emoji, wide spaces, islands) into a translation, at the positions given by the word
alignment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from app.engine.interface import AlignedWord, TranslationResult
from app.text.character_references import escaped_quotes, first_bare, written_characters
from app.text.inline_markup import placed_signs
from app.text.layout_characters import CLOSING_PUNCTUATION, is_unspaced_script
from app.text.tag_placement import AlignedSpan
from app.translation.edits import Edit, with_edits
from app.translation.reading import Hole, Reading

_SENTENCE_END = ".!?…。！？"
_QUOTED_LINE_END = " \t\r\n>"


def with_marks(reading: Reading, translation: TranslationResult) -> TranslationResult:
    """Inserts the sentence's marks into the translation of its clean text."""
    marks = reading.marks
    if translation.text == reading.clean:  # copied, such as a name or a sentence in another language
        return with_edits(translation, [Edit(mark.at, mark.at + len(mark.shown), mark.text) for mark in marks])
    edits: list[Edit] = []
    least = 0
    places = AlignedPlaces(reading.clean, translation)
    for mark in marks:
        at = places.of(mark.at)
        if not mark.shown and reading.clean[mark.at : mark.at + 1] in CLOSING_PUNCTUATION:  # keep it before the comma
            at -= _closing_length(translation.text[:at])
        if (
            mark.at == len(reading.clean)
            and any(map(str.isalnum, mark.text))
            and not mark.text.endswith(tuple(_SENTENCE_END))
        ):
            at = min(at, len(translation.text.rstrip(_SENTENCE_END)))  # an address belongs to the sentence
        at = max(least, at)
        if mark.text.isspace() or (mark.text[0] in "\r\n" and not mark.text.strip(_QUOTED_LINE_END)):
            at = _space_between_words(translation.text, at, least)
        before = edits[-1].text if edits and edits[-1].end == at else translation.text[:at]
        edits.append(_mark_edit(translation.text, at, mark, before[-1:]))
        least = edits[-1].end
    return with_edits(translation, edits)


def with_markup(reading: Reading, translation: TranslationResult) -> TranslationResult:
    """Sets the signs of emphases and links around the words that are aligned with the emphasised words."""
    alignment = [
        AlignedSpan(word.target_start, word.target_end, word.source_start, word.source_end)
        for word in translation.alignment or ()
    ]
    edits: list[Edit] = []
    signs = placed_signs(reading.source, reading.clean, reading.markup, reading.in_clean, translation.text, alignment)
    for at, sign in signs:
        if edits and edits[-1].start == at:
            edits[-1] = Edit(at, at, edits[-1].text + sign)
        else:
            edits.append(Edit(at, at, sign))
    return with_edits(translation, edits)


def with_references(reading: Reading, translation: TranslationResult) -> TranslationResult:
    """Writes characters as the references that the source has for them (&amp;), except letters."""
    quotes = escaped_quotes(reading.source)
    edits = (
        [Edit(at, at, "\\") for at, character in enumerate(translation.text) if character in quotes] if quotes else []
    )
    behind: dict[str, int] = {}  # the last place of a character
    for start, end, character in written_characters(reading.source):
        at = first_bare(character, translation.text, behind.get(character, -1) + 1)
        if at < 0 or character.isalnum() or character.isspace() or character in quotes:
            continue
        behind[character] = at
        if end - start > 1:
            edits.append(Edit(at, at + 1, reading.source[start:end]))
    return with_edits(translation, sorted(edits, key=lambda edit: edit.start))


class AlignedPlaces:
    """Maps positions between words of `clean` to positions in its translation."""

    def __init__(self, clean: str, translation: TranslationResult) -> None:
        self._clean, self._text = clean, translation.text
        self._closing = _closing_length(clean)
        # start of a source word -> start of the first and end of the last target word aligned with it
        self._begins: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        for word in translation.alignment or ():
            source, last = word.source_start, len(self._text)
            self._begins[source] = min(word.target_start, self._begins.get(source, last))
            self._ends[source] = max(word.target_end, self._ends.get(source, 0))
        self._sources = sorted(self._ends)

    def of(self, at: int) -> int:
        """The target position for source position `at`: after the word aligned with the source word before it, or
        before the word aligned with the next one; without an alignment, the proportional position."""
        if at == 0:
            return 0
        if at >= len(self._clean) - self._closing:
            return len(self._text) - (_closing_length(self._text) if at < len(self._clean) else 0)
        if not self._sources:
            return _word_end(self._text, round(len(self._text) * at / len(self._clean)))
        before = bisect_left(self._sources, at)
        if before:
            return _word_end(self._text, self._ends[self._sources[before - 1]])
        return _word_end(self._text, self._begins[self._sources[0]])


def _word_end(text: str, at: int) -> int:
    """The end of the word at `at`, including its punctuation."""
    if at <= 0 or (at < len(text) and text[at - 1].isspace()):
        return max(at - 1, 0)
    while at < len(text) and not text[at].isspace():
        if is_unspaced_script(text[at]) and text[at] not in CLOSING_PUNCTUATION:
            break
        at += 1
    return at


def _space_between_words(text: str, at: int, least: int) -> int:
    """The position for a wide space: between two words, since elsewhere it would be different layout."""
    if least <= at and text[at : at + 1] == " " and at > 0:
        return at
    behind = text.find(" ", max(at, least + 1))
    before = text.rfind(" ", least + 1, at)
    return behind if behind >= 0 else before if before >= 0 else at


def _closing_length(text: str) -> int:
    return len(text) - len(text.rstrip("".join(CLOSING_PUNCTUATION)))


def _mark_edit(text: str, at: int, mark: Hole, before: str) -> Edit:
    """The edit that inserts a mark; between two words it replaces the space. before: the character before it, of
    another mark or "" at the start: two marks in one place have one space between them."""
    shown, end = mark.text, at
    if mark.shown and text[at : at + 1] == " ":
        end = at + 1
    elif shown.endswith(" ") and not shown.endswith("  ") and (at == len(text) or text[at] in CLOSING_PUNCTUATION):
        shown = shown[:-1]
    if (not before or before == " ") and shown.startswith(" ") and not shown[1:2].isspace():
        shown = shown[1:]
    return Edit(at, end, shown)


def aligned_spans(translation: TranslationResult, start: int, end: int) -> list[tuple[int, int]]:
    """Target spans of the words aligned with a source span."""
    return [
        (word.target_start, word.target_end)
        for word in translation.alignment or ()
        if word.source_start < end and start < word.source_end and word.target_start < word.target_end
    ]


def overlaps_any(start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < other_end and other_start < end for other_start, other_end in spans)


def with_inserted(
    translation: TranslationResult, clean: str, start: int, end: int, written: str, first: int = 0
) -> TranslationResult:
    """Inserts `written` for a source span, beside the words aligned with its neighbours; not before place `first`."""
    text = translation.text
    at = max(first, AlignedPlaces(clean, translation).of(start))
    before = " " if at > 0 and not text[at - 1].isspace() and not is_unspaced_script(text[at - 1]) else ""
    closing = at > 0 and text[at : at + 1] in CLOSING_PUNCTUATION
    parted = at == len(text) or text[at].isspace() or closing or is_unspaced_script(text[at])
    inserted = with_edits(translation, [Edit(at, at, before + written + " " * (not parted))])
    if inserted.alignment is None:
        return inserted
    at += len(before)
    word = AlignedWord(at, at + len(written), start, end, 0.0)
    return replace(inserted, alignment=tuple(sorted((*inserted.alignment, word), key=lambda word: word.target_start)))
