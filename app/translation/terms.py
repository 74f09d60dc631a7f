"""Terms of a glossary in a translation: each in the place of the words that stand for its source.

There are two ways to it. The model can be made to write the term: then the sentence around it may suit it better, or
the term stands beside the word that it should have replaced, or the sentence goes astray. Or the word that the model
wrote is replaced, which always comes out right where the alignment is, and bends nothing around it. What the model
was made to write is taken where nothing speaks against it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from app.engine.jobs import AlignedWord, Translation
from app.text.characters import unspaced
from app.text.glossary import Term, at_beginning, find_term, holds_term, term_places
from app.translation.edits import Edit, edited
from app.translation.mending import aligned_spans, touches, with_inserted

_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_WORD = re.compile(r"\w+")
_FAR = 2  # characters between words that stand for one term
_MOST_NATS = 6.0  # that a term may cost the model which is made to write it; one that it would hardly write costs 10
Span = tuple[int, int]


def in_place(translation: Translation, terms: Sequence[Term]) -> bool:
    """Whether each of them stands there already, and for its own source."""
    return None not in _claims(translation, terms)


def homeless(translation: Translation, terms: Sequence[Term]) -> list[Term]:
    """Those that are not there, and for whose source no word stands."""
    claims = _claims(translation, terms)
    taken = [claim for claim in claims if claim is not None]
    pairs = zip(terms, claims, strict=True)
    return [term for term, claim in pairs if claim is None and _place(translation, term, taken) == (0, 0)]


def with_known_words(translation: Translation, alone: Sequence[tuple[Term, str]]) -> Translation:
    """alone: what the sources of these terms become by themselves. Where that stands in the translation, it stands for
    them, whatever the alignment says."""
    words = list(translation.alignment or ())
    small = "".join(each.lower() if len(each.lower()) == 1 else each for each in translation.text)  # places stay
    for term, text in alone:
        core = _CORE.search(text.lower())
        at = -1 if core is None else find_term(small, core[0])
        if core is None or at < 0:
            continue
        end = at + len(core[0])
        words = [word for word in words if not touches(word.target_start, word.target_end, [(at, end)])]
        words.append(AlignedWord(at, end, term.start, term.end, 0.0))
    return replace(translation, alignment=tuple(sorted(words, key=lambda word: word.target_start)))


def with_terms(translation: Translation, terms: Sequence[Term], clean: str) -> Translation:
    """terms: of `clean`. A lost one takes the place of the words that stand for its source."""
    text = translation.text
    claims = _claims(translation, terms) if terms else []
    taken = [claim for claim in claims if claim is not None]
    edits, lost = [], []
    for term, claim in zip(terms, claims, strict=True):
        if claim is not None:
            continue
        start, end = _place(translation, term, taken)
        if start < end:
            taken.append((start, end))
            edits.append(Edit(start, end, _form(term, clean, text, start)))
        else:
            lost.append(term)
    translation = edited(translation, sorted(edits, key=lambda edit: edit.start))
    for term in lost:  # nothing stands for it
        if not holds_term(translation.text, term.forms):
            translation = with_inserted(translation, clean, term.start, term.end, term.forms[0])
    return translation


def _form(term: Term, clean: str, text: str, at: int) -> str:
    """With a capital where it begins a translation whose source begins with one."""
    if not any(character.isalnum() for character in clean[: term.start]):
        return term.forms[-1] if not text[:at].strip() and text[:1].isupper() else term.forms[0]
    begins = next((character for character in clean if character.isalnum()), "")
    return at_beginning(term.forms[0], text, at) if begins.isupper() else term.forms[0]


def obeys(free: Translation, bound: Translation, terms: Sequence[Term]) -> bool:
    """Whether `bound`, in which the model was made to write the terms, is better than to replace words of `free`."""
    if bound.finish_reason != "stop" or not all(holds_term(bound.text, term.forms) for term in terms):
        return False
    claims = _claims(free, terms)
    places = [_place(free, term, []) for term, claim in zip(terms, claims, strict=True) if claim is None]
    if all(start < end for start, end in places) and _nats(free) - _nats(bound) > _MOST_NATS * len(terms):
        return False
    old = _words(_cut(free.text, [span for term in terms for span in _places(free.text, term)]))
    new = _words(_cut(bound.text, [span for term in terms for span in _places(bound.text, term)]))
    if old == new and places:  # the same words, and the terms beside them
        return False
    replaced = sum((_words(free.text[slice(*place)]) for place in places), Counter[str]())
    return all(new[word] <= old[word] - count for word, count in replaced.items())


def _nats(translation: Translation) -> float:
    return sum(token.log_probability or 0.0 for token in translation.tokens or ())


def _words(text: str) -> Counter[str]:
    """Of a writing without spaces, its signs."""
    return Counter(
        part for word in _WORD.findall(text.lower()) for part in (word if any(map(unspaced, word)) else (word,))
    )


def _cut(text: str, spans: Sequence[Span]) -> str:
    parts, at = [], 0
    for start, end in sorted(spans):
        parts.append(text[at : max(at, start)])
        at = max(at, end)
    return " ".join((*parts, text[at:]))


def _places(text: str, term: Term) -> list[Span]:
    return term_places(text, term.forms)


def _claims(translation: Translation, terms: Sequence[Term]) -> list[Span | None]:
    """Of each term where it stands already: where its source says, else wherever nothing says that it stands for
    another. The longest first, since a short one may be a part of it."""
    found: list[Span | None] = [None] * len(terms)
    order = sorted(range(len(terms)), key=lambda number: -max(map(len, terms[number].forms)))
    # by character, since a sentence may have hundreds of terms: looking at each pair of them takes a second
    sources = [_characters(aligned_spans(translation, term.start, term.end)) for term in terms]
    wanted = Counter(at for source in sources for at in source)
    places = [_places(translation.text, term) for term in terms]
    taken: set[int] = set()
    for own in (True, False):
        for number in order:
            if found[number] is not None:
                continue
            source = sources[number]
            for start, end in places[number]:
                place = range(start, end)
                if own:
                    fits = any(at in source for at in place)
                else:
                    fits = not any(wanted[at] > (at in source) for at in place)
                if fits and taken.isdisjoint(place):
                    found[number] = start, end
                    taken.update(place)
                    break
    return found


def _characters(spans: Sequence[Span]) -> set[int]:
    return {at for start, end in spans for at in range(start, end)}


def _place(translation: Translation, term: Term, taken: Sequence[Span]) -> Span:
    """Of the words that stand for it; empty where there are none."""
    spans = aligned_spans(translation, term.start, term.end)
    free = [span for span in spans if not touches(*span, taken)]
    start, end = _core(translation.text, *_together(free)) if free else (0, 0)
    return (0, 0) if touches(start, end, taken) else (start, end)


def _together(spans: Sequence[Span]) -> Span:
    """The longest run of neighbours, and the last of equal ones: what stands alone, such as an article, is seldom the
    word itself."""
    runs: list[Span] = []
    for start, end in sorted(spans):
        if runs and start - runs[-1][1] <= _FAR:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((start, end))
    return max(reversed(runs), key=lambda run: run[1] - run[0])


def _core(text: str, start: int, end: int) -> Span:
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
