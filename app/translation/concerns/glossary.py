"""Puts glossary terms into a translation, in place of the words aligned with their sources. Constrained decoding makes
the model write the term: the sentence may fit it better, but the term may also stand beside the word that it should
replace, or the sentence may degenerate. Replacing the aligned word is right wherever the alignment is, but inflects
nothing around it. Constrained output is preferred unless `_is_better` rejects it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from app.engine.interface import AlignedWord, TranslationOptions, TranslationRequest, TranslationResult, Usage
from app.text.glossary_matching import Term, find_term, form_at, holds_term, term_spans
from app.text.layout_characters import is_unspaced_script
from app.translation.concerns.marks import aligned_spans, overlaps_any, with_inserted
from app.translation.edits import Edit, with_edits
from app.translation.reading import Reading
from app.translation.steps import Align, Steps, Translate, ask, together

_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_WORD = re.compile(r"\w+")
_MAX_GAP = 2  # characters between words that belong to one term
# Cost per term of forcing the model to write it; an implausible term costs about 10.
_MAX_TERM_COST_NATS = 6.0
Span = tuple[int, int]


def with_terms(reading: Reading, result: TranslationResult) -> Steps[TranslationResult]:
    """The translation and its alternatives with the terms of the reading. Its constrained translation is preferred
    where terms are missing or out of place, and it is better."""
    terms = reading.terms
    if not terms:
        return result
    if result.alignment is None:
        result = replace(result, alignment=(yield from ask(Align(reading.request, result.text))))
    others = [TranslationResult(text) for text in result.alternatives]
    alignments = (yield [Align(reading.request, other.text) for other in others]) if others else []
    others = [replace(other, alignment=words) for other, words in zip(others, alignments, strict=True)]
    free, *others = yield from together([_with_term_alignments(reading, each) for each in (result, *others)])
    free = replace(free, alternatives=tuple(with_terms_written(reading, other).text for other in others))
    if _in_place(free, terms):
        return with_terms_written(reading, free)
    required = reading.with_required(term.forms for term in terms)
    constrained = yield from ask(Translate(required, refusable=True))
    if constrained is not None:
        usage = usage_sum(free.usage, [constrained])
        if _is_better(free, constrained, terms):
            scores = constrained.scores and (*constrained.scores[:1], *(free.scores or ())[1:])
            free = replace(constrained, alternatives=free.alternatives, scores=scores)
        free = replace(free, usage=usage)
    return with_terms_written(reading, free)


def _with_term_alignments(reading: Reading, translation: TranslationResult) -> Steps[TranslationResult]:
    """Translates terms without an aligned word by themselves, to find their translations in the sentence."""
    lost = _unaligned(translation, reading.terms)
    if not lost:
        return translation
    options = reading.request.options
    plain = TranslationOptions(options.source_language, options.target_language, options.model)
    results = yield [Translate(TranslationRequest(reading.clean[term.start : term.end], plain)) for term in lost]
    return _with_alignment(translation, [(term, alone.text) for term, alone in zip(lost, results, strict=True)])


def with_terms_written(reading: Reading, translation: TranslationResult) -> TranslationResult:
    """Replaces words by the terms that a translation lacks, but no numbers and no stand-ins."""
    kept = [(number.start, number.end) for number in reading.numbers_of(translation.text)]
    places = ((translation.text.find(hole.shown), hole) for hole in reading.stand_ins)
    kept += [(at, at + len(hole.shown)) for at, hole in places if at >= 0]
    return with_words_replaced(translation, reading.terms, reading.clean, kept, reading.request.options.prefix)


def usage_sum(first: Usage, others: Sequence[TranslationResult]) -> Usage:
    """Usage of requests for one sentence, one after another."""
    for result in others:
        usage = result.usage
        first = (
            usage
            if first == Usage()
            else replace(
                first,
                read_tokens=first.read_tokens + usage.read_tokens,
                new_tokens=first.new_tokens + usage.new_tokens,
                total_s=first.total_s + usage.total_s,
            )
        )
    return first


def with_words_replaced(
    translation: TranslationResult, terms: Sequence[Term], clean: str, kept: Sequence[Span] = (), prefix: str = ""
) -> TranslationResult:
    """Replaces the words aligned with the source of each lost term, or inserts the term. terms: of `clean`. kept: spans
    of the translation that no term replaces. prefix: of the request, which the translation still begins with."""
    text = translation.text
    begun = len(prefix.rstrip()) if text.startswith(prefix.rstrip()) else 0
    while 0 < begun < len(text) and _same_word(text[begun - 1], text[begun]):
        begun += 1
    claims = _claimed_spans(translation, terms)
    taken = [(0, begun), *kept, *(claim for claim in claims if claim is not None)]
    edits, lost = [], []
    for term, claim in zip(terms, claims, strict=True):
        if claim is not None:
            continue
        start, end = _replaceable_span(translation, term, taken)
        if start < end:
            taken.append((start, end))
            edits.append(Edit(start, end, _term_form(term, clean, text, start)))
        else:
            lost.append(term)
    translation = with_edits(translation, sorted(edits, key=lambda edit: edit.start))
    for term in lost:
        if not holds_term(translation.text, term.forms):
            translation = with_inserted(translation, clean, term.start, term.end, term.forms[0], begun)
    return translation


def _in_place(translation: TranslationResult, terms: Sequence[Term]) -> bool:
    """Whether every term already occurs for its own source."""
    return None not in _claimed_spans(translation, terms)


def _unaligned(translation: TranslationResult, terms: Sequence[Term]) -> list[Term]:
    """Terms that do not occur and have no word aligned with their source."""
    claims = _claimed_spans(translation, terms)
    taken = [claim for claim in claims if claim is not None]
    pairs = zip(terms, claims, strict=True)
    return [term for term, claim in pairs if claim is None and _replaceable_span(translation, term, taken) == (0, 0)]


def _with_alignment(translation: TranslationResult, alone: Sequence[tuple[Term, str]]) -> TranslationResult:
    """Aligns each term with its own translation in the text. alone: (term, translation of its source by itself)."""
    words = list(translation.alignment or ())
    # lower case with unchanged offsets
    lowercased = "".join(low if len(low := character.lower()) == 1 else character for character in translation.text)
    for term, text in alone:
        core = _CORE.search(text.lower())
        at = -1 if core is None else find_term(lowercased, core[0])
        if core is None or at < 0:
            continue
        end = at + len(core[0])
        words = [word for word in words if not overlaps_any(word.target_start, word.target_end, [(at, end)])]
        words.append(AlignedWord(at, end, term.start, term.end, 0.0))
    return replace(translation, alignment=tuple(sorted(words, key=lambda word: word.target_start)))


def _is_better(free: TranslationResult, constrained: TranslationResult, terms: Sequence[Term]) -> bool:
    """Whether the constrained translation is better than replacing words in `free`."""
    if constrained.finish_reason != "stop" or not all(holds_term(constrained.text, term.forms) for term in terms):
        return False
    claims = _claimed_spans(free, terms)
    replaced = [_replaceable_span(free, term, []) for term, claim in zip(terms, claims, strict=True) if claim is None]
    cost_nats = _log_probability(free) - _log_probability(constrained)
    if all(start < end for start, end in replaced) and cost_nats > _MAX_TERM_COST_NATS * len(terms):
        return False
    old, new = _counts_beside_terms(free.text, terms), _counts_beside_terms(constrained.text, terms)
    if old == new and replaced:  # the words to replace are still there, with the terms beside them
        return False
    replaced_words = sum((_word_counts(free.text[start:end]) for start, end in replaced), Counter[str]())
    return all(new[word] <= old[word] - count for word, count in replaced_words.items())


def _term_form(term: Term, clean: str, text: str, at: int) -> str:
    """The form of the term for this position: capitalized at the start of a translation if the source is."""
    if not any(character.isalnum() for character in clean[: term.start]):
        return term.forms[-1] if not text[:at].strip() and text[:1].isupper() else term.forms[0]
    begins = next((character for character in clean if character.isalnum()), "")
    return form_at(term.forms[0], text, at) if begins.isupper() else term.forms[0]


def _log_probability(translation: TranslationResult) -> float:
    """Sum over the tokens in nats; 0 without tokens."""
    return sum(token.log_probability or 0.0 for token in translation.tokens or ())


def _counts_beside_terms(text: str, terms: Sequence[Term]) -> Counter[str]:
    parts, at = [], 0
    for start, end in sorted(span for term in terms for span in term_spans(text, term.forms)):
        parts.append(text[at : max(at, start)])
        at = max(at, end)
    return _word_counts(" ".join((*parts, text[at:])))


def _word_counts(text: str) -> Counter[str]:
    """Counts of lower-case words, or of characters in scripts without spaces."""
    words = _WORD.findall(text.lower())
    return Counter(part for word in words for part in (word if any(map(is_unspaced_script, word)) else (word,)))


def _claimed_spans(translation: TranslationResult, terms: Sequence[Term]) -> list[Span | None]:
    """The span of each term that already occurs: aligned with its own source, or else not aligned with another term's
    source. Longer terms choose first, since a short term may be part of a long one."""
    claims: list[Span | None] = [None] * len(terms)
    order = sorted(range(len(terms)), key=lambda number: -max(map(len, terms[number].forms)))
    # Sets of positions, since a sentence may have hundreds of terms: comparing all pairs takes a second.
    aligned = [
        {at for span in aligned_spans(translation, term.start, term.end) for at in range(*span)} for term in terms
    ]
    aligned_terms = Counter(at for places in aligned for at in places)
    spans = [term_spans(translation.text, term.forms) for term in terms]
    taken: set[int] = set()
    for own in (True, False):
        for number in order:
            if claims[number] is not None:
                continue
            for start, end in spans[number]:
                places = range(start, end)
                if own:
                    fits = any(at in aligned[number] for at in places)
                else:
                    fits = not any(aligned_terms[at] > (at in aligned[number]) for at in places)
                if fits and taken.isdisjoint(places):
                    claims[number] = start, end
                    taken.update(places)
                    break
    return claims


def _replaceable_span(translation: TranslationResult, term: Term, taken: Sequence[Span]) -> Span:
    """The span of the words aligned with the term's source; (0, 0) if there are none."""
    free = [span for span in aligned_spans(translation, term.start, term.end) if not overlaps_any(*span, taken)]
    start, end = _whole_words(translation.text, *_longest_run(free)) if free else (0, 0)
    return (0, 0) if overlaps_any(start, end, taken) else (start, end)


def _longest_run(spans: Sequence[Span]) -> Span:
    """The longest run of adjacent spans, on ties the last: a separate article or the like is seldom the word itself."""
    runs: list[Span] = []
    for start, end in sorted(spans):
        if runs and start - runs[-1][1] <= _MAX_GAP:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((start, end))
    return max(reversed(runs), key=lambda run: run[1] - run[0])


def _whole_words(text: str, start: int, end: int) -> Span:
    """The span extended to whole words, without surrounding punctuation."""
    core = _CORE.search(text[start:end])
    if core is None:
        return 0, 0
    first, last = start + core.start(), start + core.end()
    while first > 0 and _same_word(text[first - 1], text[first]):
        first -= 1
    while last < len(text) and _same_word(text[last - 1], text[last]):
        last += 1
    return first, last


def _same_word(before: str, after: str) -> bool:
    return bool(_CORE.fullmatch(before + after)) and not is_unspaced_script(before) and not is_unspaced_script(after)
