"""Translates sentences and repairs lost marks, links, placeholders, numbers and glossary terms. A sentence is
translated as it is. If a link was not copied exactly, the sentence is translated again without its links, which are
then inserted by word alignment; lost numbers and terms replace the words aligned with them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.engine.interface import Notice, TranslationOptions, TranslationRequest, TranslationResult, Usage
from app.text.capitals import with_capitals
from app.text.glossary_matching import Term, holds_term, term_spans
from app.text.numbers import lost_numbers
from app.text.protected_spans import protected_spans
from app.translation.cached_engine import CachedEngine
from app.translation.prepare import PreparedSentence
from app.translation.repair.glossary_terms import (
    constrained_is_better,
    terms_in_place,
    unaligned_terms,
    with_term_alignment,
    with_terms,
)
from app.translation.repair.marks_and_numbers import (
    with_lost_numbers,
    with_marks,
    with_markup,
    with_references,
)
from app.translation.slices import each_in_thread


async def translated_with_repair(
    engine: CachedEngine, sentences: Sequence[PreparedSentence], *, patient: bool = False
) -> list[TranslationResult]:
    """Repaired translations, aligned with the sentences' source. patient: part of the text is translated already."""
    translations = await engine.translate([sentence.request for sentence in sentences], patient=patient)
    if all(
        sentence.plain and not sentence.marks and translation.text.strip()
        for sentence, translation in zip(sentences, translations, strict=True)
    ):
        return translations  # the common case
    sentences = list(sentences)
    lengths = [0 if sentence.plain else len(sentence.source) for sentence in sentences]
    pairs = list(zip(sentences, translations, strict=True))
    kept = await each_in_thread(pairs, lengths, lambda pair: _keeps_links(pair[0], pair[1].text))
    broken = [i for i, keeps in enumerate(kept) if not keeps]
    linkless = await each_in_thread(broken, [lengths[i] for i in broken], lambda i: sentences[i].without_links())
    for i, sentence in zip(broken, linkless, strict=True):
        sentences[i] = sentence
    again = await engine.translate([sentences[i].request for i in broken], patient=True)
    for i, translation in zip(broken, again, strict=True):
        translations[i] = replace(translation, usage=_usage_sum(translations[i].usage, translation.usage))
    translations = await _with_constrained_terms(engine, sentences, translations)
    unaligned = [i for i, translation in enumerate(translations) if translation.alignment is None]
    lost = await each_in_thread(
        unaligned, [lengths[i] for i in unaligned], lambda i: _loses_number_or_term(sentences[i], translations[i].text)
    )
    losing = [i for i, loses in zip(unaligned, lost, strict=True) if loses]
    aligned = await engine.aligned([sentences[i].request for i in losing], [translations[i] for i in losing])
    for i, translation in zip(losing, aligned, strict=True):
        translations[i] = translation
    pairs = list(zip(sentences, translations, strict=True))
    return await each_in_thread(pairs, lengths, lambda pair: _repaired(*pair))


def _lengths(sentences: Sequence[PreparedSentence], numbers: Iterable[int]) -> list[int]:
    return [len(sentences[number].source) for number in numbers]


def or_source_text(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """The source text if the translation is blank."""
    if translation.text.strip():
        return translation
    scores = translation.scores and translation.scores[:1]
    return replace(translation, text=sentence.clean, alternatives=(), scores=scores, tokens=None, alignment=None)


def _usage_sum(first: Usage, second: Usage) -> Usage:
    """Usage of two sequential requests for one sentence."""
    return replace(
        first,
        read_tokens=first.read_tokens + second.read_tokens,
        new_tokens=first.new_tokens + second.new_tokens,
        total_s=first.total_s + second.total_s,
    )


def _keeps_links(sentence: PreparedSentence, text: str) -> bool:
    return not sentence.protected or Counter(span.key for span in sentence.protected) == Counter(
        span.key for span in protected_spans(text)
    )


def _loses_number_or_term(sentence: PreparedSentence, text: str) -> bool:
    if sentence.numbers:
        present = sentence.numbers_of(text)
        if lost_numbers(sentence.numbers, text, present, sentence.request.options.target_language):
            return True
    return not all(holds_term(text, term.forms) for term in sentence.terms)


def _repaired(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    translation = or_source_text(sentence, translation)
    if not sentence.plain:
        translation = _with_numbers_and_terms(sentence, translation)
    if sentence.marks:
        translation = with_references(sentence, translation)
    if not sentence.plain:
        translation = _with_marks_and_markup(sentence, _with_repaired_alternatives(sentence, translation))
    if sentence.capitals:
        translation = _in_capitals(sentence, translation)
    if not sentence.marks:
        return translation
    alignment = None if translation.alignment is None else sentence.in_source(translation.alignment)
    return replace(translation, alignment=alignment, notices=_notices_in_source(sentence, translation.notices))


def _with_marks_and_markup(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    return with_marks(sentence, with_markup(sentence, translation) if sentence.markup else translation)


def _in_capitals(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """The translation in capital letters, except for glossary terms."""
    language = sentence.request.options.target_language

    def written(text: str) -> str:
        spans = [span for term in sentence.terms for span in term_spans(text, term.forms)]
        return with_capitals(text, language, spans)

    text = written(translation.text)
    tokens, at = [], 0
    for token in translation.tokens or ():
        tokens.append(replace(token, text=text[at : at + len(token.text)]))
        at += len(token.text)
    return replace(
        translation,
        text=text,
        alternatives=tuple(map(written, translation.alternatives)),
        tokens=None if translation.tokens is None else tuple(tokens),
    )


def _notices_in_source(sentence: PreparedSentence, notices: Sequence[Notice]) -> tuple[Notice, ...]:
    moved = []
    for notice in notices:
        if notice.start is not None and notice.end is not None:
            ((start, end),) = sentence.spans_in_source([(notice.start, notice.end)])
            notice = replace(notice, start=start, end=end)
        moved.append(notice)
    return tuple(moved)


def _with_numbers_and_terms(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    translation = with_lost_numbers(sentence, translation)
    kept = [(number.start, number.end) for number in sentence.numbers_of(translation.text)] if sentence.numbers else []
    return with_terms(translation, sentence.terms, sentence.clean, kept)


def _with_repaired_alternatives(sentence: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """Keeps alternatives that lose nothing and inserts their marks; others cannot be repaired without an alignment."""
    texts: list[str] = []
    scores = list(translation.scores[:1]) if translation.scores else []
    best = _with_marks_and_markup(sentence, translation).text
    for number, text in enumerate(translation.alternatives, 1):
        if not _keeps_links(sentence, text) or _loses_number_or_term(sentence, text):
            continue
        marked = _with_marks_and_markup(sentence, TranslationResult(text)).text
        if marked not in (best, *texts):  # terms may have made two alternatives equal
            texts.append(marked)
            scores += translation.scores[number : number + 1] if translation.scores else ()
    return replace(translation, alternatives=tuple(texts), scores=translation.scores and tuple(scores))


async def _with_constrained_terms(
    engine: CachedEngine, sentences: Sequence[PreparedSentence], translations: Sequence[TranslationResult]
) -> list[TranslationResult]:
    """Uses constrained translations where terms are misplaced and these are better; alternatives get replacements."""
    translations = await _with_terms_in_alternatives(
        engine, sentences, await _with_term_alignments(engine, sentences, translations)
    )
    owning = [i for i, sentence in enumerate(sentences) if sentence.terms]
    lengths = _lengths(sentences, owning)
    in_place = await each_in_thread(owning, lengths, lambda i: terms_in_place(translations[i], sentences[i].terms))
    losing = [i for i, kept in zip(owning, in_place, strict=True) if not kept]
    found = await engine.translated_or_none([sentences[i].constrained_request for i in losing])
    pairs = [(i, constrained) for i, constrained in zip(losing, found, strict=True) if constrained is not None]
    better = await each_in_thread(
        pairs,
        _lengths(sentences, [i for i, _ in pairs]),
        lambda pair: constrained_is_better(translations[pair[0]], pair[1], sentences[pair[0]].terms),
    )
    for (i, constrained), is_better in zip(pairs, better, strict=True):
        free, usage = translations[i], _usage_sum(translations[i].usage, constrained.usage)
        if is_better:
            scores = constrained.scores and (*constrained.scores[:1], *(free.scores or ())[1:])
            translations[i] = replace(constrained, usage=usage, alternatives=free.alternatives, scores=scores)
        else:
            translations[i] = replace(free, usage=usage)
    return translations


async def _with_term_alignments(
    engine: CachedEngine, sentences: Sequence[PreparedSentence], translations: Sequence[TranslationResult]
) -> list[TranslationResult]:
    """Translates terms without an aligned word by themselves, to find their translations in the sentence."""
    translations = list(translations)
    requests: list[TranslationRequest] = []
    lost: list[tuple[int, Term]] = []
    owning = [i for i, sentence in enumerate(sentences) if sentence.terms]
    lengths = _lengths(sentences, owning)
    unaligned = await each_in_thread(owning, lengths, lambda i: unaligned_terms(translations[i], sentences[i].terms))
    for i, terms in zip(owning, unaligned, strict=True):
        sentence, options = sentences[i], sentences[i].request.options
        for term in terms:
            lost.append((i, term))
            plain = TranslationOptions(options.source_language, options.target_language, options.model)
            requests.append(TranslationRequest(sentence.clean[term.start : term.end], plain))
    alone: defaultdict[int, list[tuple[Term, str]]] = defaultdict(list)
    for (i, term), result in zip(lost, await engine.translate(requests, patient=True), strict=True):
        alone[i].append((term, result.text))
    aligned = await each_in_thread(
        list(alone), _lengths(sentences, alone), lambda i: with_term_alignment(translations[i], alone[i])
    )
    for i, translation in zip(alone, aligned, strict=True):
        translations[i] = translation
    return translations


async def _with_terms_in_alternatives(
    engine: CachedEngine, sentences: Sequence[PreparedSentence], translations: list[TranslationResult]
) -> list[TranslationResult]:
    owners = [i for i, sentence in enumerate(sentences) if sentence.terms for _ in translations[i].alternatives]
    owning = [sentences[i] for i in owners]
    texts = [TranslationResult(text) for i in dict.fromkeys(owners) for text in translations[i].alternatives]
    alternatives = await engine.aligned([sentence.request for sentence in owning], texts)
    alternatives = await _with_term_alignments(engine, owning, alternatives)
    pairs = list(zip(owning, alternatives, strict=True))
    written = await each_in_thread(pairs, _lengths(sentences, owners), lambda pair: _with_numbers_and_terms(*pair).text)
    repaired: defaultdict[int, list[str]] = defaultdict(list)
    for i, text in zip(owners, written, strict=True):
        repaired[i].append(text)
    for i, own in repaired.items():
        translations[i] = replace(translations[i], alternatives=tuple(own))
    return translations
