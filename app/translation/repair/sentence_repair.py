"""Translations that hold what they have to: marks, links, placeholders, numbers and terms of a glossary.

A sentence is translated as it is. Where a link did not come over to the letter, it is translated without its links,
and they are put where the word alignment says; lost numbers and terms take the place of the words that stand for
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from app.engine.interface import TranslationResult
from app.text.glossary_matching import holds_term
from app.text.protected_spans import may_be_a_word, missing_spans, protected_spans
from app.translation.cached_engine import Asker, in_thread_if_long
from app.translation.prepare import PreparedSentence, usage_sum
from app.translation.repair.glossary_terms import with_glossary_terms, with_terms
from app.translation.repair.marks_and_numbers import mark_edits, numbers_in, with_lost_numbers
from app.translation.repair.text_edits import with_edits


async def translated_with_repair(
    asker: Asker, tasks: Sequence[PreparedSentence], *, patient: bool = False
) -> list[TranslationResult]:
    """The translations of the sentences as they stand in the text, alignments counted there. patient: they belong to a
    text that has begun."""
    found, done = await asker.translate([task.job for task in tasks], patient=patient), list(tasks)
    if all(map(_needs_no_repair, done, found)):
        return found
    broken = [i for i, task in enumerate(done) if not _keeps_links(task, found[i].text)]
    for i in broken:
        done[i] = done[i].without_links()
    again = await asker.translate([done[i].job for i in broken], patient=True) if broken else []
    for i, answer in zip(broken, again, strict=True):
        found[i] = replace(answer, usage=usage_sum(found[i].usage, answer.usage))
    found = await with_glossary_terms(asker, done, found)
    losing = [
        i
        for i, task in enumerate(done)
        if (task.numbers or task.terms) and found[i].alignment is None and _loses_number_or_term(task, found[i].text)
    ]
    if losing:
        with_words = await asker.aligned([done[i].job for i in losing], [found[i] for i in losing])
        for i, answer in zip(losing, with_words, strict=True):
            found[i] = answer
    return await in_thread_if_long(
        sum(len(task.sentence.source) for task in done if not task.plain), lambda: _all_repaired(done, found)
    )


def _needs_no_repair(task: PreparedSentence, translation: TranslationResult) -> bool:
    """As nearly all are, which then cost nothing more."""
    return task.plain and not task.sentence.marks and translation.text.strip() != ""


def _all_repaired(tasks: Sequence[PreparedSentence], found: Sequence[TranslationResult]) -> list[TranslationResult]:
    return [_repaired(task, translation) for task, translation in zip(tasks, found, strict=True)]


def _keeps_links(task: PreparedSentence, text: str) -> bool:
    return not task.kept or Counter(each.key for each in task.kept) == Counter(
        each.key for each in protected_spans(text)
    )


def _loses_number_or_term(task: PreparedSentence, text: str) -> bool:
    """A number or a term."""
    there = numbers_in(text, task.terms) if task.numbers else []
    lost = missing_spans(task.numbers, there)
    became_words = all(map(may_be_a_word, lost)) and not missing_spans(there, task.numbers)
    return (bool(lost) and not became_words) or not all(holds_term(text, term.forms) for term in task.terms)


def _repaired(task: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """With all that it has to hold."""
    sentence, translation = task.sentence, or_source_text(task, translation)
    if not task.plain:
        translation = with_lost_numbers(translation, task.numbers, task.terms, sentence.clean)
        translation = with_terms(translation, task.terms, sentence.clean)
        translation = _with_repaired_alternatives(task, translation)
        translation = with_edits(translation, mark_edits(sentence, translation))
    if translation.alignment is None or not sentence.marks:
        return translation
    return replace(translation, alignment=sentence.in_source(translation.alignment))


def or_source_text(task: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """A model that writes nothing has not translated: the source stays."""
    if translation.text.strip():
        return translation
    scores = translation.scores and translation.scores[:1]
    return replace(translation, text=task.sentence.clean, alternatives=(), scores=scores, tokens=None, alignment=None)


def _with_repaired_alternatives(task: PreparedSentence, translation: TranslationResult) -> TranslationResult:
    """Only those that hold it too: where their words stand for which, nobody says."""
    texts: list[str] = []
    scores = list(translation.scores[:1]) if translation.scores else []
    best = with_edits(translation, mark_edits(task.sentence, translation)).text
    for number, text in enumerate(translation.alternatives, 1):
        if _keeps_links(task, text) and not _loses_number_or_term(task, text):
            other = TranslationResult(text, (), "stop", "")
            whole = with_edits(other, mark_edits(task.sentence, other)).text
            if whole in (best, *texts):  # since its terms are in it
                continue
            texts.append(whole)
            scores += translation.scores[number : number + 1] if translation.scores else ()
    return replace(translation, alternatives=tuple(texts), scores=translation.scores and tuple(scores))
