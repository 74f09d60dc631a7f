"""Numbers and terms that a translation lost, in the place of the words that stand for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.engine.jobs import Translation
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
        aligned = _aligned(translation, number.start, number.end)
        best = [each for each in wrong if any(each.start < end and start < each.end for start, end in aligned)] or wrong
        written = clean[number.start : number.end]
        if best:
            edit = Edit(best[0].start, best[0].end, written)
        elif may_be_a_word(number):
            continue
        else:
            edit = _put_in(translation, clean, number.start, written)
        translation = edited(translation, [edit])
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
            if not any(start < taken_end and taken_start < end for taken_start, taken_end in taken)
        ]
        start, end = _core(text, *_together(free)) if free else (0, 0)
        form = term.forms[0] if text[:start].strip() or not text[:1].isupper() else term.forms[-1]
        edit = Edit(start, end, form) if start < end else _put_in(translation, clean, term.start, form)
        translation = edited(translation, [edit])
    for term in terms:  # one that another has taken the place of
        if not holds_term(translation.text, term.forms):
            translation = edited(translation, [_put_in(translation, clean, term.start, term.forms[0])])
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


def _put_in(translation: Translation, clean: str, at: int, written: str) -> Edit:
    """Beside the words that stand for those beside it in the source."""
    text = translation.text
    where = place(clean, translation, at)
    before = " " if where > 0 and not text[where - 1].isspace() and not unspaced(text[where - 1]) else ""
    parted = where == len(text) or text[where].isspace() or text[where] in CLOSING or unspaced(text[where])
    after = "" if parted else " "
    return Edit(where, where, before + written + after)
