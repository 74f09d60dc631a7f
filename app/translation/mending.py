"""Numbers that a translation lost, in the place of the words that stand for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from app.engine.jobs import AlignedWord, Translation
from app.text.characters import CLOSING, unspaced
from app.text.glossary import Term, term_places
from app.text.protected import Kept, kept_spans, may_be_a_word, missing, number_spans
from app.translation.edits import Edit, edited
from app.translation.placing import Places

_WORD = re.compile(r"\w")


def numbers_there(text: str, terms: Sequence[Term]) -> list[Kept]:
    """The numbers of a translation, but for those that links and terms bring along."""
    places = [Kept(*span, "") for term in terms for span in term_places(text, term.forms)]
    return number_spans(text, [*kept_spans(text), *places])


def with_numbers(translation: Translation, numbers: Sequence[Kept], terms: Sequence[Term], clean: str) -> Translation:
    """numbers: of `clean`. A lost number takes the place of a wrong one, best of that which stands for it; without any
    it is put in. Small ones may have become words."""
    there = numbers_there(translation.text, terms) if numbers else []
    for number in missing(numbers, there):
        wrong = missing(there, numbers)
        surplus = {each.key for each in wrong}
        aligned = aligned_spans(translation, number.start, number.end)
        best = [each for each in there if each.key in surplus and touches(each.start, each.end, aligned)] or wrong
        empty = [span for span in aligned if not _WORD.search(translation.text[slice(*span)])]  # what is left of it
        written = clean[number.start : number.end]
        if best:
            translation = edited(translation, [Edit(best[0].start, best[0].end, written)])
        elif empty and not may_be_a_word(number):
            translation = edited(translation, [Edit(*empty[0], written)])
        elif not may_be_a_word(number):
            translation = with_inserted(translation, clean, number.start, number.end, written)
        there = numbers_there(translation.text, terms)
    return translation


def aligned_spans(translation: Translation, start: int, end: int) -> list[tuple[int, int]]:
    """Spans of the words that stand for this part of the source."""
    return [
        (word.target_start, word.target_end)
        for word in translation.alignment or ()
        if word.source_start < end and start < word.source_end and word.target_start < word.target_end
    ]


def touches(start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < other_end and other_start < end for other_start, other_end in spans)


def with_inserted(translation: Translation, clean: str, start: int, end: int, written: str) -> Translation:
    """What stands for this part of the source is put in, beside the words that stand for those beside it."""
    text = translation.text
    where = Places(clean, translation).of(start)
    before = " " if where > 0 and not text[where - 1].isspace() and not unspaced(text[where - 1]) else ""
    closing = where > 0 and text[where : where + 1] in CLOSING
    parted = where == len(text) or text[where].isspace() or closing or unspaced(text[where])
    found = edited(translation, [Edit(where, where, before + written + " " * (not parted))])
    if found.alignment is None:
        return found
    where += len(before)
    own = AlignedWord(where, where + len(written), start, end, 0.0)
    words = sorted((*found.alignment, own), key=lambda word: word.target_start)
    return replace(found, alignment=tuple(words))
