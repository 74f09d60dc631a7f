"""Translations that hold what they have to: marks, links, placeholders, numbers and terms of a glossary.

A sentence is translated as it is. Where a link did not come over to the letter, it is translated without its links,
and they are put where the word alignment says; numbers and terms that are lost take the place of the words that stand
for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from app.engine.jobs import Translation
from app.text.glossary import holds_term
from app.text.protected import kept_spans, may_be_a_word, missing
from app.translation.asking import Asker, aside
from app.translation.edits import edited
from app.translation.mending import numbers_there, with_numbers
from app.translation.obeying import with_glossary
from app.translation.placing import placed
from app.translation.task import Task, summed
from app.translation.terms import with_terms


async def faithful(asker: Asker, tasks: Sequence[Task], *, patient: bool = False) -> list[Translation]:
    """The translations of the sentences as they stand in the text, alignments counted there. patient: they belong to a
    text that has begun."""
    found, done = await asker.translate([task.job for task in tasks], patient=patient), list(tasks)
    if all(map(_right_as_it_comes, done, found)):
        return found
    broken = [i for i, task in enumerate(done) if not _links_come_over(task, found[i].text)]
    for i in broken:
        done[i] = done[i].without_links()
    again = await asker.translate([done[i].job for i in broken], patient=True) if broken else []
    for i, answer in zip(broken, again, strict=True):
        found[i] = replace(answer, usage=summed(found[i].usage, answer.usage))
    found = await with_glossary(asker, done, found)
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
    texts: list[str] = []
    scores = list(translation.scores[:1]) if translation.scores else []
    best = edited(translation, placed(task.sentence, translation)).text
    for number, text in enumerate(translation.alternatives, 1):
        if _links_come_over(task, text) and not _loses(task, text):
            other = Translation(text, (), "stop", "")
            whole = edited(other, placed(task.sentence, other)).text
            if whole in (best, *texts):  # since its terms are in it
                continue
            texts.append(whole)
            scores += translation.scores[number : number + 1] if translation.scores else ()
    return replace(translation, alternatives=tuple(texts), scores=translation.scores and tuple(scores))
