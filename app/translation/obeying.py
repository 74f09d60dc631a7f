"""Sentences with terms of a glossary: what is asked of the engine for these beside their translation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from app.engine.jobs import Translation, TranslationJob
from app.text.glossary import Term
from app.translation.asking import Asker
from app.translation.mending import with_numbers
from app.translation.task import Task, summed
from app.translation.terms import homeless, in_place, obeys, with_known_words, with_terms


async def with_glossary(asker: Asker, tasks: Sequence[Task], found: Sequence[Translation]) -> list[Translation]:
    """Where terms are not in their places, what the model writes that is made to, if that is better than to put them
    there. The alternatives have them in theirs."""
    answers = await _with_alternatives(asker, tasks, await _at_home(asker, tasks, found))
    losing = [i for i, task in enumerate(tasks) if task.terms and not in_place(answers[i], task.terms)]
    bound = await asker.translated_or_none([tasks[i].bound for i in losing]) if losing else []
    for i, answer in zip(losing, bound, strict=True):
        if answer is None:
            continue
        free, usage = answers[i], summed(answers[i].usage, answer.usage)
        if obeys(free, answer, tasks[i].terms):
            scores = answer.scores and (*answer.scores[:1], *(free.scores or ())[1:])
            answers[i] = replace(answer, usage=usage, alternatives=free.alternatives, scores=scores)
        else:
            answers[i] = replace(free, usage=usage)
    return answers


async def _at_home(asker: Asker, tasks: Sequence[Task], found: Sequence[Translation]) -> list[Translation]:
    """Terms for whose sources no word stands are looked for by what these become by themselves."""
    answers = list(found)
    lost = [(i, term) for i, task in enumerate(tasks) if task.terms for term in homeless(found[i], task.terms)]
    alone = await asker.translate([_alone(tasks[i], term) for i, term in lost], patient=True) if lost else []
    known: defaultdict[int, list[tuple[Term, str]]] = defaultdict(list)
    for (i, term), each in zip(lost, alone, strict=True):
        known[i].append((term, each.text))
    for i, own in known.items():
        answers[i] = with_known_words(answers[i], own)
    return answers


def _alone(task: Task, term: Term) -> TranslationJob:
    text = task.sentence.clean[term.start : term.end]
    return TranslationJob(text, task.job.source_language, task.job.target_language, task.job.model)


async def _with_alternatives(asker: Asker, tasks: Sequence[Task], found: Sequence[Translation]) -> list[Translation]:
    answers = list(found)
    others = [
        (i, Translation(text, (), "stop", ""))
        for i, task in enumerate(tasks)
        if task.terms
        for text in found[i].alternatives
    ]
    if not others:
        return answers
    aligned = await asker.aligned([tasks[i].job for i, _ in others], [each for _, each in others])
    aligned = await _at_home(asker, [tasks[i] for i, _ in others], aligned)
    texts: defaultdict[int, list[str]] = defaultdict(list)
    for (i, _), each in zip(others, aligned, strict=True):
        texts[i].append(_text(tasks[i], each))
    for i, own in texts.items():
        answers[i] = replace(answers[i], alternatives=tuple(own))
    return answers


def _text(task: Task, translation: Translation) -> str:
    clean = task.sentence.clean
    return with_terms(with_numbers(translation, task.numbers, task.terms, clean), task.terms, clean).text
