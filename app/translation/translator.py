"""Texts of any length and layout, translated through the engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial

from app.engine.errors import TextTooLong
from app.engine.jobs import Engine, Translation, TranslationJob
from app.engine.streaming import Show, TextStream
from app.text.glossary import Glossary
from app.translation.asking import Asker, aside
from app.translation.assembly import whole
from app.translation.cache import Cache
from app.translation.faithful import faithful
from app.translation.halving import at_spaces, fitted, halves, keeps_spaces, surely_fits
from app.translation.job import TextJob, TranslatedText
from app.translation.layout import Layout, layout_of, spaces
from app.translation.pages import translated_pages
from app.translation.sentence import Sentence
from app.translation.showing import shown_in_order
from app.translation.task import Task

Model = tuple[str | None, str, str]
_NO_TERMS = Glossary({})
_HALVINGS = 2  # of a sentence whose translation did not end
_SHORT_CHARACTERS = 60  # a sentence of so few has room enough: its translation goes round in circles


@dataclass(frozen=True, slots=True)
class Plan:
    """tasks: one for each piece of the layout."""

    job: TextJob
    layout: Layout
    tasks: list[Task]


class Translator:
    """`translate` answers in the order of its jobs; admitted or refused together. Both raise `EngineError`s."""

    def __init__(self, engine: Engine, cache: Cache | None = None) -> None:
        self._engine = engine
        self._asker = Asker(engine, Cache() if cache is None else cache)

    async def translate(self, jobs: Sequence[TextJob]) -> list[TranslatedText]:
        return await translated_pages(jobs, self._translate_plain)

    async def _translate_plain(self, jobs: Sequence[TextJob]) -> list[TranslatedText]:
        try:
            return await self._translate(jobs, certain=False)
        except TextTooLong:  # a sentence has more tokens than bytes: now all are counted
            return await self._translate(jobs, certain=True)

    async def _translate(self, jobs: Sequence[TextJob], *, certain: bool) -> list[TranslatedText]:
        plans = await self._plans(jobs, certain=certain)
        found = iter(await self._translated([task for plan in plans for task in plan.tasks]))
        parts = [[next(found) for _ in plan.tasks] for plan in plans]
        size = sum(len(plan.job.text) for plan in plans)
        return await aside(size, lambda: [_answer(*each) for each in zip(plans, parts, strict=True)])

    def stream(self, job: TextJob) -> AbstractAsyncContextManager[TextStream[TranslatedText]]:
        """The same answer, its text as it is found: sentences are translated side by side and shown in their order,
        those that may have to be mended when they are whole, and so are pages. But a sentence that runs into the
        model's own limit while it is shown stays as it is: it cannot be taken back and translated in halves."""

        async def work(show: Show) -> TranslatedText:
            if job.format == "html":
                (page,) = await self.translate([job])
                show(page.text, 0)
                return page
            (plan,) = await self._plans([job], certain=True)
            between = list(spaces(plan.layout, job.target_language))
            parts = await shown_in_order(plan.tasks, between, self._engine, self._asker, self._mended, show)
            return _answer(plan, parts)

        return TextStream.opened(work)

    async def _mended(self, task: Task, patient: bool) -> Translation:
        return (await self._translated([task], patient=patient))[0]

    async def _translated(
        self, tasks: Sequence[Task], halvings: int = _HALVINGS, *, patient: bool = False
    ) -> list[Translation]:
        """Those that ran into the model's own limit are translated again in halves, those that found no places for
        all spaces of the source in the parts between these."""
        found = await faithful(self._asker, tasks, patient=patient) if tasks else []
        again: list[tuple[int, Layout, list[Task]]] = []
        for number, (task, translation) in enumerate(zip(tasks, found, strict=True)):
            source = task.sentence.source
            cut = translation.finish_reason == "length" and task.job.max_new_tokens is None
            parted = None if keeps_spaces(source, translation.text) else at_spaces(source, task.job.source_language)
            if parted is not None and parted.spans:
                again.append((number, parted, _tasks(parted, task.job, task.glossary)))
            elif cut and halvings > 0 and len(source) > _SHORT_CHARACTERS:
                layout = halves(source, task.job.source_language)
                if len(layout.spans) > 1:
                    again.append((number, layout, _tasks(layout, task.job, task.glossary)))
        if again:
            tasks_again = [task for *_, own in again for task in own]
            parts = iter(await self._translated(tasks_again, halvings - 1, patient=True))
            for number, layout, own in again:
                found[number] = whole(layout, [next(parts) for _ in own], tasks[number].job.target_language)
        return found

    async def _plans(self, jobs: Sequence[TextJob], *, certain: bool) -> list[Plan]:
        size = sum(len(job.text) for job in jobs)
        layouts = await aside(size, lambda: [layout_of(job.text, job.source_language, split=job.split) for job in jobs])
        pairs = await self._fitted(list(zip(jobs, layouts, strict=True)), certain=certain)
        return await aside(size, lambda: _plans_of(pairs))

    async def _fitted(self, pairs: Sequence[tuple[TextJob, Layout]], *, certain: bool) -> list[tuple[TextJob, Layout]]:
        rooms: dict[Model, int] = {}
        found = []
        for job, layout in pairs:
            if layout.spans:
                model = job.model, job.source_language, job.target_language
                room = rooms[model] if model in rooms else rooms.setdefault(model, self._engine.source_room(*model))
                if certain or not surely_fits(layout, room):
                    count = partial(self._engine.source_tokens, *model)
                    layout = await fitted(layout, room, count, certain=certain)
            found.append((job, layout))
        return found


def _plans_of(pairs: Sequence[tuple[TextJob, Layout]]) -> list[Plan]:
    glossaries: dict[int, Glossary] = {}  # by identity: the jobs of a request share one
    plans = []
    for job, layout in pairs:
        if job.glossary and id(job.glossary) not in glossaries:
            glossaries[id(job.glossary)] = Glossary(job.glossary)
        glossary = glossaries[id(job.glossary)] if job.glossary else _NO_TERMS
        plans.append(Plan(job, layout, _tasks(layout, _asked(job), glossary)))
    return plans


def _asked(job: TextJob) -> TranslationJob:
    return TranslationJob(
        "",
        job.source_language,
        job.target_language,
        job.model,
        job.alternatives,
        job.beam_size,
        job.length_penalty,
        job.max_new_tokens,
        job.prefix,
        (),
        job.no_repeat_ngram_size,
        job.wants,
    )


def _tasks(layout: Layout, asked: TranslationJob, glossary: Glossary) -> list[Task]:
    """The prefix is for the first sentence alone."""
    if layout.spans == ((0, len(layout.text)),):
        return [Task.of(Sentence.of(layout.text), asked, glossary)]
    others = replace(asked, prefix="") if asked.prefix else asked
    return [
        Task.of(Sentence.of(piece), others if number else asked, glossary) for number, piece in enumerate(layout.pieces)
    ]


def _answer(plan: Plan, parts: Sequence[Translation]) -> TranslatedText:
    found = whole(plan.layout, parts, plan.job.target_language)
    wants = plan.job.wants
    return TranslatedText(
        found.text,
        found.alternatives[: plan.job.alternatives],
        found.finish_reason,
        found.model,
        found.usage,
        found.scores if "scores" in wants else None,
        found.tokens if "tokens" in wants else None,
        found.alignment if "alignment" in wants else None,
    )
