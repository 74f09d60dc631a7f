"""Restores marks and links removed from a sentence, and lost numbers, at the positions given by the word alignment."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from app.engine.interface import AlignedWord, TranslationResult
from app.text.character_references import first_bare, written_characters
from app.text.inline_markup import placed_signs
from app.text.layout_characters import CLOSING_PUNCTUATION, is_unspaced_script
from app.text.numbers import JOINED_DIGITS, LostNumber, Number, lost_numbers, surplus_numbers
from app.text.tag_placement import AlignedSpan
from app.translation.prepare import Mark, PreparedSentence
from app.translation.repair.text_edits import Edit, with_edits

_WORD_CHARACTER = re.compile(r"\w")
_ATTACHED_LETTERS = re.compile(r"[^\W\d_]+")
_LETTERS_BEFORE = re.compile(r"[^\W\d_]+\Z")
_LONGEST_WORD = 30
_LEAST_REPAIRS = 8  # of numbers in a sentence
_REPAIRED_CHARACTERS = 40_000  # that are read in all, in 0.1 s: a sentence of 400 characters may have 100 repairs
_SENTENCE_END = ".!?…。！？"
_QUOTED_LINE_END = " \t\r\n>"


def with_marks(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """Inserts the sentence's marks into the translation of its clean text."""
    marks = sentence.shown_marks
    if translation.text == sentence.clean:  # copied, such as a name or a sentence in another language
        return with_edits(translation, [Edit(mark.at, mark.at + len(mark.gap), mark.text) for mark in marks])
    edits: list[Edit] = []
    least = 0
    places = AlignedPlaces(sentence.clean, translation)
    for mark in marks:
        at = places.of(mark.at)
        if not mark.gap and sentence.clean[mark.at : mark.at + 1] in CLOSING_PUNCTUATION:  # keep it before the comma
            at -= _closing_length(translation.text[:at])
        if (
            mark.at == len(sentence.clean)
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


def with_markup(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """Sets the signs of emphases and links around the words that are aligned with the emphasised words."""
    alignment = [
        AlignedSpan(word.target_start, word.target_end, word.source_start, word.source_end)
        for word in translation.alignment or ()
    ]
    edits: list[Edit] = []
    signs = placed_signs(
        sentence.source, sentence.clean, sentence.markup, sentence.in_clean, translation.text, alignment
    )
    for at, sign in signs:
        if edits and edits[-1].start == at:
            edits[-1] = Edit(at, at, edits[-1].text + sign)
        else:
            edits.append(Edit(at, at, sign))
    return with_edits(translation, edits)


def with_references(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """Writes characters as the references that the source has for them (&amp;), except letters."""
    edits: list[Edit] = []
    behind: dict[str, int] = {}  # the last place of a character
    for start, end, character in written_characters(sentence.source):
        at = first_bare(character, translation.text, behind.get(character, -1) + 1)
        if at < 0 or character.isalnum() or character.isspace():
            continue
        behind[character] = at
        if end - start > 1:
            edits.append(Edit(at, at + 1, sentence.source[start:end]))
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


def _mark_edit(text: str, at: int, mark: Mark, before: str) -> Edit:
    """The edit that inserts a mark; between two words it replaces the space. before: the character before it, of
    another mark or "" at the start: two marks in one place have one space between them."""
    shown, end = mark.text, at
    if mark.gap and text[at : at + 1] == " ":
        end = at + 1
    elif shown.endswith(" ") and not shown.endswith("  ") and (at == len(text) or text[at] in CLOSING_PUNCTUATION):
        shown = shown[:-1]
    if (not before or before == " ") and shown.startswith(" ") and not shown[1:2].isspace():
        shown = shown[1:]
    return Edit(at, end, shown)


def with_lost_numbers(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """Restores lost numbers. A lost number replaces its own pieces in the translation, or a wrong number, if possible
    one that is aligned with it; without either it is inserted."""
    target_language = sentence.request.options.target_language
    # A repair may make another one needless, or join its number to the digits beside it, which the next one parts.
    # A row of a hundred times that the model has lost altogether is repaired in part: each repair reads the row again.
    repairs = max(_LEAST_REPAIRS, _REPAIRED_CHARACTERS // max(1, len(translation.text)))
    for _ in range(min(2 * len(sentence.numbers), repairs)):
        present = sentence.numbers_of(translation.text)
        lost = lost_numbers(sentence.numbers, translation.text, present, target_language)
        if not lost:
            break
        surplus = surplus_numbers(sentence.numbers, present)
        keys = {number.key for number in surplus}  # of several equal ones, the aligned one is replaced
        aligned = aligned_spans(translation, lost[0].number.start, lost[0].number.end)
        wrong = [other for other in present if other.key in keys and overlaps_any(*other.core, aligned)]
        translation = _with_number(sentence, translation, lost[0], wrong or surplus)
    return translation


def _with_number(
    sentence: PreparedSentence, translation: TranslationResult, lost: LostNumber, wrong: Sequence[Number]
) -> TranslationResult:
    """Restores one lost number. wrong: numbers of the translation that it may replace."""
    number = lost.number
    wrong = [other for other in wrong if set(other.groups) <= set(number.groups)] or wrong
    written = sentence.clean[number.start : number.end]
    unit = sentence.clean[number.core[1] : number.end].strip()
    if unit.isalpha() and re.search(rf"(?<!\w){re.escape(unit)}(?!\w)", translation.text):
        written = sentence.clean[number.start : number.core[1]]
    if lost.place or wrong:
        start, end = lost.place or _joined_digits(translation.text, *wrong[0].core)
        ending = _ATTACHED_LETTERS.match(translation.text, end)  # "50s" for "50%"
        beginning = _LETTERS_BEFORE.search(translation.text, max(0, start - _LONGEST_WORD), start)  # "eleven5"
        edit = Edit(beginning.start() if beginning else start, ending.end() if ending else end, written)
        return with_edits(translation, [edit])
    for start, end in aligned_spans(translation, number.start, number.end):
        alone = not translation.text[:start] or translation.text[start - 1].isspace()
        if alone and not _WORD_CHARACTER.search(translation.text[start:end]):
            return with_edits(translation, [Edit(start, end, written)])
    return with_inserted(translation, sentence.clean, number.start, number.end, written)


def _joined_digits(text: str, start: int, end: int) -> tuple[int, int]:
    """A wrong number with the digits that are joined to it: 176.06.1996 of 176."""
    spans = (found.span() for found in JOINED_DIGITS.finditer(text))
    return next(((first, last) for first, last in spans if first <= start and end <= last), (start, end))


def aligned_spans(translation: TranslationResult, start: int, end: int) -> list[tuple[int, int]]:
    """Target spans of the words aligned with a source span."""
    return [
        (word.target_start, word.target_end)
        for word in translation.alignment or ()
        if word.source_start < end and start < word.source_end and word.target_start < word.target_end
    ]


def overlaps_any(start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < other_end and other_start < end for other_start, other_end in spans)


def with_inserted(translation: TranslationResult, clean: str, start: int, end: int, written: str) -> TranslationResult:
    """Inserts `written` for a source span, beside the words aligned with its neighbours."""
    text = translation.text
    at = AlignedPlaces(clean, translation).of(start)
    before = " " if at > 0 and not text[at - 1].isspace() and not is_unspaced_script(text[at - 1]) else ""
    closing = at > 0 and text[at : at + 1] in CLOSING_PUNCTUATION
    parted = at == len(text) or text[at].isspace() or closing or is_unspaced_script(text[at])
    inserted = with_edits(translation, [Edit(at, at, before + written + " " * (not parted))])
    if inserted.alignment is None:
        return inserted
    at += len(before)
    word = AlignedWord(at, at + len(written), start, end, 0.0)
    return replace(inserted, alignment=tuple(sorted((*inserted.alignment, word), key=lambda word: word.target_start)))
