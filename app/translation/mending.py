"""Numbers and terms that a translation lost, in the place of the words that stand for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from app.engine.jobs import AlignedWord, Translation
from app.text.characters import CLOSING, unspaced
from app.text.glossary import Term, find_term, holds_term
from app.text.protected import Kept, kept_spans, may_be_a_word, missing, number_spans
from app.translation.edits import Edit, edited
from app.translation.placing import place

_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_FAR = 2  # characters between words that stand for one term


def numbers_there(text: str, terms: Sequence[Term]) -> list[Kept]:
    """The numbers of a translation, but for those that links and terms bring along."""
    places = [Kept(*span, "") for term in terms for form in term.forms for span in _places(text, form)]
    return number_spans(text, [*kept_spans(text), *places])


def with_numbers(translation: Translation, numbers: Sequence[Kept], terms: Sequence[Term], clean: str) -> Translation:
    """numbers: of `clean`. A lost number takes the place of a wrong one, best of that which stands for it; without any
    it is put in. Small ones may have become words."""
    there = numbers_there(translation.text, terms) if numbers else []
    for number in missing(numbers, there):
        wrong = missing(there, numbers)
        surplus = {each.key for each in wrong}
        aligned = _aligned(translation, number.start, number.end)
        best = [each for each in there if each.key in surplus and _touches(each.start, each.end, aligned)] or wrong
        empty = [span for span in aligned if not _CORE.search(translation.text[slice(*span)])]  # what is left of it
        written = clean[number.start : number.end]
        if best:
            translation = edited(translation, [Edit(best[0].start, best[0].end, written)])
        elif empty and not may_be_a_word(number):
            translation = edited(translation, [Edit(*empty[0], written)])
        elif not may_be_a_word(number):
            translation = _with(translation, clean, number.start, number.end, written)
        there = numbers_there(translation.text, terms)
    return translation


def with_terms(translation: Translation, terms: Sequence[Term], clean: str) -> Translation:
    """terms: of `clean`. A lost term takes the place of the words that stand for its source."""
    for term in terms:
        text = translation.text
        if holds_term(text, term.forms):
            continue
        taken = [span for each in terms if each is not term for form in each.forms for span in _places(text, form)]
        free = [
            (start, end)
            for start, end in _aligned(translation, term.start, term.end)
            if not _touches(start, end, taken)
        ]
        start, end = _core(text, *_together(free)) if free else (0, 0)
        form = term.forms[0] if text[:start].strip() or not text[:1].isupper() else term.forms[-1]
        if start < end:
            translation = edited(translation, [Edit(start, end, form)])
        else:
            translation = _with(translation, clean, term.start, term.end, form)
    for term in terms:  # one that another has taken the place of
        if not holds_term(translation.text, term.forms):
            translation = _with(translation, clean, term.start, term.end, term.forms[0])
    return translation


def _aligned(translation: Translation, start: int, end: int) -> list[tuple[int, int]]:
    """Spans of the words that stand for this part of the source."""
    return [
        (word.target_start, word.target_end)
        for word in translation.alignment or ()
        if word.source_start < end and start < word.source_end and word.target_start < word.target_end
    ]


def _together(spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The longest run of neighbours, and the last of equal ones: what stands alone, such as an article, is seldom the
    word itself."""
    runs: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if runs and start - runs[-1][1] <= _FAR:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((start, end))
    return max(reversed(runs), key=lambda run: run[1] - run[0])


def _core(text: str, start: int, end: int) -> tuple[int, int]:
    """Without the punctuation around the words, and whole words of them."""
    core = _CORE.search(text[start:end])
    if core is None:
        return 0, 0
    first, last = start + core.start(), start + core.end()
    while first > 0 and _one_word(text[first - 1], text[first]):
        first -= 1
    while last < len(text) and _one_word(text[last - 1], text[last]):
        last += 1
    return first, last


def _one_word(before: str, after: str) -> bool:
    return bool(_CORE.fullmatch(before + after)) and not unspaced(before) and not unspaced(after)


def _places(text: str, form: str) -> list[tuple[int, int]]:
    spans, at = [], find_term(text, form)
    while at >= 0:
        spans.append((at, at + len(form)))
        at = find_term(text, form, at + len(form))
    return spans


def _touches(start: int, end: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < other_end and other_start < end for other_start, other_end in spans)


def _with(translation: Translation, clean: str, start: int, end: int, written: str) -> Translation:
    """What stands for this part of the source is put in, beside the words that stand for those beside it."""
    text = translation.text
    where = place(clean, translation, start)
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
