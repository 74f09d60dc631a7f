"""Translations that hold what they have to: marks, links, placeholders, numbers and terms of a glossary.

A sentence is translated as it is. Where a link did not come over to the letter, it is translated without its links,
and they are put where the word alignment says; numbers and terms that are lost take the place of the words that stand
for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.engine.jobs import Translation, TranslationJob, Usage, Wanted
from app.text.glossary import Glossary, Term, holds_term
from app.text.plain import one_plain_sentence
from app.text.protected import Kept, kept_spans, may_be_a_word, missing, number_spans
from app.translation.asking import Asker, aside
from app.translation.edits import edited
from app.translation.mending import numbers_there, with_numbers
from app.translation.placing import placed
from app.translation.sentence import Sentence
from app.translation.terms import in_place, obeys, with_terms
from models.options import MOST_TERMS

_PLACES: frozenset[Wanted] = frozenset({"alignment"})
_WORDS: frozenset[Wanted] = frozenset({"alignment", "tokens"})


@dataclass(frozen=True, slots=True)
class Task:
    """A sentence, what the engine is asked for it, and what the translation has to hold."""

    sentence: Sentence
    job: TranslationJob
    kept: tuple[Kept, ...]
    numbers: tuple[Kept, ...]
    terms: tuple[Term, ...]
    glossary: Glossary

    @classmethod
    def of(cls, sentence: Sentence, asked: TranslationJob, glossary: Glossary) -> Task:
        """asked: the job but for its text and its terms."""
        clean = sentence.clean
        if not glossary and not sentence.marks and one_plain_sentence(clean):
            return cls(sentence, _job(asked, clean, asked.wants), (), (), (), glossary)
        kept = tuple(kept_spans(clean))
        inside = {at for each in kept for at in range(each.start, each.end)}
        terms = tuple(term for term in glossary.find(clean) if term.start not in inside) if glossary else ()
        wants = asked.wants | (_WORDS if terms else _PLACES if sentence.shown_marks else frozenset())
        covered = [*kept, *(Kept(term.start, term.end, "") for term in terms)] if terms else kept
        numbers = tuple(number_spans(clean, covered))
        return cls(sentence, _job(asked, clean, wants), kept, numbers, terms, glossary)

    @property
    def plain(self) -> bool:
        """Whether its translation is right as it comes."""
        return not (self.sentence.shown_marks or self.kept or self.numbers or self.terms)

    @property
    def bound(self) -> TranslationJob:
        """The same, of a model that is made to write the terms."""
        # of more terms than a search takes, the others are put in afterwards
        required = tuple(dict.fromkeys(term.forms for term in self.terms))[:MOST_TERMS]
        return replace(self.job, required=required, alternatives=0)

    def without_links(self) -> Task:
        source = self.sentence.source
        return Task.of(Sentence.of(source, kept_spans(source)), self.job, self.glossary)


def _job(asked: TranslationJob, text: str, wants: frozenset[Wanted]) -> TranslationJob:
    """As dataclasses.replace, in a fifth of its time: it is made for every sentence."""
    return TranslationJob(
        text,
        asked.source_language,
        asked.target_language,
        asked.model,
        asked.alternatives,
        asked.beam_size,
        asked.length_penalty,
        asked.max_new_tokens,
        asked.prefix,
        (),
        asked.no_repeat_ngram_size,
        wants,
    )


async def faithful(asker: Asker, tasks: Sequence[Task]) -> list[Translation]:
    """The translations of the sentences as they stand in the text, alignments counted there."""
    found, done = await asker.translate([task.job for task in tasks]), list(tasks)
    if all(map(_right_as_it_comes, done, found)):
        return found
    broken = [i for i, task in enumerate(done) if not _links_come_over(task, found[i].text)]
    for i in broken:
        done[i] = done[i].without_links()
    again = await asker.translate([done[i].job for i in broken]) if broken else []
    for i, answer in zip(broken, again, strict=True):
        found[i] = replace(answer, usage=_sum(found[i].usage, answer.usage))
    found = await with_obedient(asker, done, found)
    losing = [
        i
        for i, task in enumerate(done)
        if (task.numbers or task.terms) and found[i].alignment is None and _loses(task, found[i].text)
    ]
    if losing:
        with_words = await asker.aligned([done[i].job for i in losing], [found[i] for i in losing])
        for i, answer in zip(losing, with_words, strict=True):
            found[i] = answer
    return await aside(
        sum(len(task.sentence.source) for task in done if not task.plain), lambda: _all_whole(done, found)
    )


async def with_obedient(asker: Asker, tasks: Sequence[Task], found: Sequence[Translation]) -> list[Translation]:
    """Where terms are not in their places, what the model writes that is made to, if that is better."""
    answers = list(found)
    losing = [i for i, task in enumerate(tasks) if task.terms and not in_place(found[i], task.terms)]
    bound = await asker.translated_or_none([tasks[i].bound for i in losing]) if losing else []
    for i, answer in zip(losing, bound, strict=True):
        if answer is None:
            continue
        usage = _sum(found[i].usage, answer.usage)
        if obeys(found[i], answer, tasks[i].terms):
            answers[i] = replace(answer, usage=usage, alternatives=found[i].alternatives, scores=_own(answer, found[i]))
        else:
            answers[i] = replace(found[i], usage=usage)
    return answers


def _own(best: Translation, others: Translation) -> tuple[float, ...] | None:
    return best.scores and (*best.scores[:1], *(others.scores or ())[1:])


def _right_as_it_comes(task: Task, translation: Translation) -> bool:
    """As nearly all are, which then cost nothing more."""
    return task.plain and not task.sentence.marks and translation.text.strip() != ""


def _all_whole(tasks: Sequence[Task], found: Sequence[Translation]) -> list[Translation]:
    return [_whole(task, translation) for task, translation in zip(tasks, found, strict=True)]


def _links_come_over(task: Task, text: str) -> bool:
    return not task.kept or Counter(each.key for each in task.kept) == Counter(each.key for each in kept_spans(text))


def _loses(task: Task, text: str) -> bool:
    """A number or a term."""
    there = numbers_there(text, task.terms) if task.numbers else []
    lost = missing(task.numbers, there)
    became_words = all(map(may_be_a_word, lost)) and not missing(there, task.numbers)
    return (bool(lost) and not became_words) or not all(holds_term(text, term.forms) for term in task.terms)


def _whole(task: Task, translation: Translation) -> Translation:
    """With all that it has to hold."""
    sentence, translation = task.sentence, or_source(task, translation)
    if not task.plain:
        translation = with_numbers(translation, task.numbers, task.terms, sentence.clean)
        translation = with_terms(translation, task.terms, sentence.clean)
        translation = _with_whole_alternatives(task, translation)
        translation = edited(translation, placed(sentence, translation))
    if translation.alignment is None or not sentence.marks:
        return translation
    return replace(translation, alignment=sentence.in_source(translation.alignment))


def or_source(task: Task, translation: Translation) -> Translation:
    """A model that writes nothing has not translated: the source stays."""
    if translation.text.strip():
        return translation
    scores = translation.scores and translation.scores[:1]
    return replace(translation, text=task.sentence.clean, alternatives=(), scores=scores, tokens=None, alignment=None)


def _with_whole_alternatives(task: Task, translation: Translation) -> Translation:
    """Only those that hold it too: where their words stand for which, nobody says."""
    texts, scores = [], list(translation.scores[:1]) if translation.scores else []
    for number, text in enumerate(translation.alternatives, 1):
        if _links_come_over(task, text) and not _loses(task, text):
            other = Translation(text, (), "stop", "")
            texts.append(edited(other, placed(task.sentence, other)).text)
            scores += translation.scores[number : number + 1] if translation.scores else ()
    return replace(translation, alternatives=tuple(texts), scores=translation.scores and tuple(scores))


def _sum(first: Usage, second: Usage) -> Usage:
    return replace(
        first,
        read_tokens=first.read_tokens + second.read_tokens,
        new_tokens=first.new_tokens + second.new_tokens,
        total_s=first.total_s + second.total_s,
    )
