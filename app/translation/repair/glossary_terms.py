"""Terms of a glossary in a translation: each in the place of the words that stand for its source.

There are two ways. The model can be made to write the term (constrained decoding): the sentence around it may suit it
better, or the term stands beside the word that it should have replaced, or the sentence goes astray. Or the word that
the model wrote is replaced, which is always right where the alignment is, and inflects nothing around it. Constrained
output is taken where nothing speaks against it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from app.engine.interface import AlignedWord, TranslationOptions, TranslationRequest, TranslationResult
from app.text.glossary_matching import Term, find_term, form_at, holds_term, term_spans
from app.text.layout_characters import is_unspaced_script
from app.translation.cached_engine import Asker
from app.translation.prepare import PreparedSentence, usage_sum
from app.translation.repair.marks_and_numbers import aligned_spans, overlaps_any, with_inserted, with_lost_numbers
from app.translation.repair.text_edits import Edit, with_edits

_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_WORD = re.compile(r"\w+")
_MAX_GAP = 2  # characters between words that stand for one term
_MAX_TERM_COST_NATS = (
    6.0  # that a term may cost the model which is made to write it; one that it would hardly write costs 10
)
Span = tuple[int, int]


def terms_in_place(translation: TranslationResult, terms: Sequence[Term]) -> bool:
    """Whether each of them stands there already, and for its own source."""
    return None not in _claimed_spans(translation, terms)


def unaligned_terms(translation: TranslationResult, terms: Sequence[Term]) -> list[Term]:
    """Those that are not there, and for whose source no word stands."""
    claims = _claimed_spans(translation, terms)
    taken = [claim for claim in claims if claim is not None]
    pairs = zip(terms, claims, strict=True)
    return [term for term, claim in pairs if claim is None and _replaceable_span(translation, term, taken) == (0, 0)]


def with_term_alignment(translation: TranslationResult, alone: Sequence[tuple[Term, str]]) -> TranslationResult:
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
        words = [word for word in words if not overlaps_any(word.target_start, word.target_end, [(at, end)])]
        words.append(AlignedWord(at, end, term.start, term.end, 0.0))
    return replace(translation, alignment=tuple(sorted(words, key=lambda word: word.target_start)))


def with_terms(translation: TranslationResult, terms: Sequence[Term], clean: str) -> TranslationResult:
    """terms: of `clean`. A lost one takes the place of the words that stand for its source."""
    text = translation.text
    claims = _claimed_spans(translation, terms) if terms else []
    taken = [claim for claim in claims if claim is not None]
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
    for term in lost:  # nothing stands for it
        if not holds_term(translation.text, term.forms):
            translation = with_inserted(translation, clean, term.start, term.end, term.forms[0])
    return translation


def _term_form(term: Term, clean: str, text: str, at: int) -> str:
    """With a capital where it begins a translation whose source begins with one."""
    if not any(character.isalnum() for character in clean[: term.start]):
        return term.forms[-1] if not text[:at].strip() and text[:1].isupper() else term.forms[0]
    begins = next((character for character in clean if character.isalnum()), "")
    return form_at(term.forms[0], text, at) if begins.isupper() else term.forms[0]


def constrained_is_better(free: TranslationResult, bound: TranslationResult, terms: Sequence[Term]) -> bool:
    """Whether `bound`, in which the model was made to write the terms, is better than to replace words of `free`."""
    if bound.finish_reason != "stop" or not all(holds_term(bound.text, term.forms) for term in terms):
        return False
    claims = _claimed_spans(free, terms)
    places = [_replaceable_span(free, term, []) for term, claim in zip(terms, claims, strict=True) if claim is None]
    if all(start < end for start, end in places) and _log_probability(free) - _log_probability(
        bound
    ) > _MAX_TERM_COST_NATS * len(terms):
        return False
    old = _word_counts(_without_spans(free.text, [span for term in terms for span in _term_spans(free.text, term)]))
    new = _word_counts(_without_spans(bound.text, [span for term in terms for span in _term_spans(bound.text, term)]))
    if old == new and places:  # the same words, and the terms beside them
        return False
    replaced = sum((_word_counts(free.text[slice(*place)]) for place in places), Counter[str]())
    return all(new[word] <= old[word] - count for word, count in replaced.items())


def _log_probability(translation: TranslationResult) -> float:
    return sum(token.log_probability or 0.0 for token in translation.tokens or ())


def _word_counts(text: str) -> Counter[str]:
    """Of a writing without spaces, its signs."""
    return Counter(
        part
        for word in _WORD.findall(text.lower())
        for part in (word if any(map(is_unspaced_script, word)) else (word,))
    )


def _without_spans(text: str, spans: Sequence[Span]) -> str:
    parts, at = [], 0
    for start, end in sorted(spans):
        parts.append(text[at : max(at, start)])
        at = max(at, end)
    return " ".join((*parts, text[at:]))


def _term_spans(text: str, term: Term) -> list[Span]:
    return term_spans(text, term.forms)


def _claimed_spans(translation: TranslationResult, terms: Sequence[Term]) -> list[Span | None]:
    """Of each term where it stands already: where its source says, else wherever nothing says that it stands for
    another. The longest first, since a short one may be a part of it."""
    found: list[Span | None] = [None] * len(terms)
    order = sorted(range(len(terms)), key=lambda number: -max(map(len, terms[number].forms)))
    # by character, since a sentence may have hundreds of terms: looking at each pair of them takes a second
    sources = [_positions(aligned_spans(translation, term.start, term.end)) for term in terms]
    wanted = Counter(at for source in sources for at in source)
    places = [_term_spans(translation.text, term) for term in terms]
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


def _positions(spans: Sequence[Span]) -> set[int]:
    return {at for start, end in spans for at in range(start, end)}


def _replaceable_span(translation: TranslationResult, term: Term, taken: Sequence[Span]) -> Span:
    """Of the words that stand for it; empty where there are none."""
    spans = aligned_spans(translation, term.start, term.end)
    free = [span for span in spans if not overlaps_any(*span, taken)]
    start, end = _whole_words(translation.text, *_longest_run(free)) if free else (0, 0)
    return (0, 0) if overlaps_any(start, end, taken) else (start, end)


def _longest_run(spans: Sequence[Span]) -> Span:
    """The longest run of neighbours, and the last of equal ones: what stands alone, such as an article, is seldom the
    word itself."""
    runs: list[Span] = []
    for start, end in sorted(spans):
        if runs and start - runs[-1][1] <= _MAX_GAP:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((start, end))
    return max(reversed(runs), key=lambda run: run[1] - run[0])


def _whole_words(text: str, start: int, end: int) -> Span:
    """Without the punctuation around the words, and whole words of them."""
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


async def with_glossary_terms(
    asker: Asker, tasks: Sequence[PreparedSentence], found: Sequence[TranslationResult]
) -> list[TranslationResult]:
    """Where terms are not in their places, what the model writes that is made to, if that is better than to put them
    there. The alternatives have them in theirs."""
    answers = await _with_terms_in_alternatives(asker, tasks, await _with_term_alignments(asker, tasks, found))
    losing = [i for i, task in enumerate(tasks) if task.terms and not terms_in_place(answers[i], task.terms)]
    bound = await asker.translated_or_none([tasks[i].bound for i in losing]) if losing else []
    for i, answer in zip(losing, bound, strict=True):
        if answer is None:
            continue
        free, usage = answers[i], usage_sum(answers[i].usage, answer.usage)
        if constrained_is_better(free, answer, tasks[i].terms):
            scores = answer.scores and (*answer.scores[:1], *(free.scores or ())[1:])
            answers[i] = replace(answer, usage=usage, alternatives=free.alternatives, scores=scores)
        else:
            answers[i] = replace(free, usage=usage)
    return answers


async def _with_term_alignments(
    asker: Asker, tasks: Sequence[PreparedSentence], found: Sequence[TranslationResult]
) -> list[TranslationResult]:
    """Terms for whose sources no word stands are looked for by what these become by themselves."""
    answers = list(found)
    lost = [(i, term) for i, task in enumerate(tasks) if task.terms for term in unaligned_terms(found[i], task.terms)]
    alone = await asker.translate([_term_request(tasks[i], term) for i, term in lost], patient=True) if lost else []
    known: defaultdict[int, list[tuple[Term, str]]] = defaultdict(list)
    for (i, term), each in zip(lost, alone, strict=True):
        known[i].append((term, each.text))
    for i, own in known.items():
        answers[i] = with_term_alignment(answers[i], own)
    return answers


def _term_request(task: PreparedSentence, term: Term) -> TranslationRequest:
    text = task.sentence.clean[term.start : term.end]
    options = task.job.options
    return TranslationRequest(text, TranslationOptions(options.source_language, options.target_language, options.model))


async def _with_terms_in_alternatives(
    asker: Asker, tasks: Sequence[PreparedSentence], found: Sequence[TranslationResult]
) -> list[TranslationResult]:
    answers = list(found)
    others = [
        (i, TranslationResult(text, (), "stop", ""))
        for i, task in enumerate(tasks)
        if task.terms
        for text in found[i].alternatives
    ]
    if not others:
        return answers
    aligned = await asker.aligned([tasks[i].job for i, _ in others], [each for _, each in others])
    aligned = await _with_term_alignments(asker, [tasks[i] for i, _ in others], aligned)
    texts: defaultdict[int, list[str]] = defaultdict(list)
    for (i, _), each in zip(others, aligned, strict=True):
        texts[i].append(_repaired_text(tasks[i], each))
    for i, own in texts.items():
        answers[i] = replace(answers[i], alternatives=tuple(own))
    return answers


def _repaired_text(task: PreparedSentence, translation: TranslationResult) -> str:
    clean = task.sentence.clean
    return with_terms(with_lost_numbers(translation, task.numbers, task.terms, clean), task.terms, clean).text
