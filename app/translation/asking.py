"""Sentences on their way to the engine: each asked once, in groups that it has room for, and what was asked before
taken from the cache."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from app.engine.errors import InvalidRequest, Overloaded, TextTooLong
from app.engine.jobs import AlignedWord, Engine, ModelInfo, Translation, TranslationJob, Usage
from app.translation.cache import Cache
from app.translation.tidying import tidied

T = TypeVar("T")
GROUP_SENTENCES = 256
GROUP_BYTES = 32_768  # as many tokens at most, of which the engine holds twice as many by default
_LONG_CHARACTERS = 4000  # of which layout and mending take a few milliseconds, a thread a tenth of one
_MANY = 1000  # sentences after whose look-up others have their turn
_PATIENCE_S = 30.0  # for room for the groups behind the first, of which some is done already
_LONGEST_WAIT_S = 2.0
_PAIRS = 128  # of a sentence and its translation that are aligned at once: some 8,000 tokens
_TERMS = "glossary"  # the field at fault where a model cannot write a term


class Asker:
    """`translate` answers in the order of its jobs. If the engine has no room for the first group, all of them are
    refused, unless they belong to what has begun (patient); those behind it wait for room."""

    def __init__(self, engine: Engine, cache: Cache) -> None:
        self._engine, self._cache = engine, cache

    async def translate(self, jobs: Sequence[TranslationJob], *, patient: bool = False) -> list[Translation]:
        deadline = time.monotonic() + _PATIENCE_S if patient else 0.0
        if len(jobs) == 1 and not self._cache.max_bytes:
            answers = await _patiently(partial(self._engine.translate, jobs), deadline)
            return [tidied(answer, jobs[0].prefix) for answer in answers]
        found: dict[TranslationJob, Translation | None] = {}
        for start in range(0, len(jobs), _MANY):
            found.update((job, self.known(job)) for job in jobs[start : start + _MANY])
            if start:
                await asyncio.sleep(0)
        unknown = [job for job, translation in found.items() if translation is None]
        for group in _groups(unknown):
            served = [self._model(job) for job in group]
            answers = await _patiently(partial(self._engine.translate, group), deadline)
            deadline = time.monotonic() + _PATIENCE_S
            for job, model, answer in zip(group, served, answers, strict=True):
                found[job] = own = tidied(answer, job.prefix)
                self._keep(job, model, own)
        return [_there(found[job]) for job in jobs]

    async def translated_or_none(self, jobs: Sequence[TranslationJob]) -> list[Translation | None]:
        """None for those with terms that the model has no tokens for; one of them is no fault of the others."""
        try:
            return list(await self.translate(jobs, patient=True))
        except InvalidRequest as refusal:
            if refusal.field != _TERMS:
                raise
            if len(jobs) == 1:
                return [None]
        half = len(jobs) // 2
        return [*await self.translated_or_none(jobs[:half]), *await self.translated_or_none(jobs[half:])]

    async def aligned(self, jobs: Sequence[TranslationJob], found: Sequence[Translation]) -> list[Translation]:
        """The same translations with their word alignments; without, where they are longer than the model reads."""
        by_model: dict[tuple[str | None, str, str], list[int]] = {}
        for number, job in enumerate(jobs):
            by_model.setdefault((job.model, job.source_language, job.target_language), []).append(number)
        answers = list(found)
        for model, numbers in by_model.items():
            for start in range(0, len(numbers), _PAIRS):
                group = numbers[start : start + _PAIRS]
                told = await self._alignments(model, [(jobs[number].text, found[number].text) for number in group])
                for number, alignment in zip(group, told, strict=True):
                    if alignment is not None:
                        answers[number] = replace(found[number], alignment=alignment)
        return answers

    async def _alignments(
        self, model: tuple[str | None, str, str], pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...] | None]:
        """None for a pair that is longer than the model reads, which is no fault of the others."""
        try:
            deadline = time.monotonic() + _PATIENCE_S
            return list(await _patiently(partial(self._engine.align, *model, pairs), deadline))
        except TextTooLong:
            if len(pairs) == 1:
                return [None]
        half = len(pairs) // 2
        return [*await self._alignments(model, pairs[:half]), *await self._alignments(model, pairs[half:])]

    # What is known already --------------------------------------------------------------------------------

    def known(self, job: TranslationJob) -> Translation | None:
        if not self._cache.max_bytes:
            return None
        model = self._model(job)
        return None if model is None else self._cache.get((model.name, model.version, job))

    def _keep(self, job: TranslationJob, model: ModelInfo | None, answer: Translation) -> None:
        """Not if the model was loaded again meanwhile: nobody can say then which of the two has answered."""
        if model is not None and self._cache.max_bytes and self._model(job) == model and answer.model == model.name:
            self._cache.put((model.name, model.version, job), replace(answer, usage=Usage()))

    def _model(self, job: TranslationJob) -> ModelInfo | None:
        """The one that answers this job."""
        if not self._cache.max_bytes:
            return None
        pair = job.source_language, job.target_language
        for model in self._engine.models():
            if (model.source_language, model.target_language) == pair and job.model in (None, model.name):
                return model
        return None


async def aside(characters: int, work: Callable[[], T]) -> T:
    """What `work` gives; of long texts in a thread, so that nobody else waits for it."""
    return work() if characters <= _LONG_CHARACTERS else await asyncio.to_thread(work)


async def _patiently(ask: Callable[[], Awaitable[T]], deadline: float) -> T:
    """deadline: until when it waits for room; 0: not at all."""
    wait = 0.05
    while True:
        try:
            return await ask()
        except Overloaded:
            if time.monotonic() + wait > deadline:
                raise
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT_S)


def _groups(jobs: Sequence[TranslationJob]) -> Iterator[list[TranslationJob]]:
    group: list[TranslationJob] = []
    size = 0
    for job in jobs:
        length = len(job.text.encode())
        if group and (len(group) == GROUP_SENTENCES or size + length > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(job)
        size += length
    if group:
        yield group


def _there(translation: Translation | None) -> Translation:
    assert translation is not None
    return translation
