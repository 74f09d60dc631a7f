"""The engine behind a cache of translated sentences: each distinct sentence is translated once, in groups that the
engine has room for.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from app.engine.errors import InvalidRequest, Overloaded, TextTooLong
from app.engine.interface import AlignedWord, Engine, ModelInfo, TranslationRequest, TranslationResult, Usage
from app.translation.repair.text_edits import without_invented_layout

# Of the model, its version, and all that was asked: a tuple of values that are compared, so that no two are mistaken
# for each other.
CacheKey = tuple[str, int, TranslationRequest]
_ENTRY_BYTES = 2000  # what the objects of one entry take beside its texts, measured
_TOKEN_BYTES = 200
_CHARACTER_BYTES = 4


class Cache:
    """max_bytes 0 keeps nothing."""

    def __init__(self, max_bytes: int = 0) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._kept: OrderedDict[CacheKey, tuple[TranslationResult, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: CacheKey) -> TranslationResult | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def put(self, key: CacheKey, translation: TranslationResult) -> None:
        size = _entry_bytes(key, translation)
        if size > self.max_bytes:
            return
        if key in self._kept:
            self.bytes -= self._kept.pop(key)[1]
        self._kept[key] = translation, size
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, (_, freed) = self._kept.popitem(last=False)
            self.bytes -= freed


def _entry_bytes(key: CacheKey, translation: TranslationResult) -> int:
    job = key[2]
    required = (form for forms in job.required for form in forms)
    texts = (job.text, job.options.prefix, translation.text, *translation.alternatives, *required)
    parts = len(translation.tokens or ()) + len(translation.alignment or ())
    return _ENTRY_BYTES + _TOKEN_BYTES * parts + _CHARACTER_BYTES * sum(map(len, texts))


T = TypeVar("T")
GROUP_SENTENCES = 256
GROUP_BYTES = 32_768  # as many tokens at most, of which the engine holds twice as many by default
_THREAD_CHARACTERS = 4000  # of which layout and mending take a few milliseconds, a thread a tenth of one
_LOOKUPS_PER_TURN = 1000  # sentences after whose look-up others have their turn
_ROOM_WAIT_S = 30.0  # for room for the groups behind the first, of which some is done already
_LONGEST_WAIT_S = 2.0
_PAIRS_PER_ALIGNMENT = 128  # of a sentence and its translation that are aligned at once: some 8,000 tokens
_GLOSSARY_FIELD = "glossary"  # the field at fault where a model cannot write a term


class Asker:
    """`translate` answers in the order of its jobs. If the engine has no room for the first group, all of them are
    refused, unless they belong to what has begun (patient); those behind it wait for room."""

    def __init__(self, engine: Engine, cache: Cache) -> None:
        self._engine, self._cache = engine, cache

    async def translate(self, jobs: Sequence[TranslationRequest], *, patient: bool = False) -> list[TranslationResult]:
        deadline = time.monotonic() + _ROOM_WAIT_S if patient else 0.0
        if len(jobs) == 1 and not self._cache.max_bytes:
            answers = await _when_room(partial(self._engine.translate, jobs), deadline)
            return [without_invented_layout(answer, jobs[0].options.prefix) for answer in answers]
        found: dict[TranslationRequest, TranslationResult | None] = {}
        for start in range(0, len(jobs), _LOOKUPS_PER_TURN):
            found.update((job, self.known(job)) for job in jobs[start : start + _LOOKUPS_PER_TURN])
            if start:
                await asyncio.sleep(0)
        unknown = [job for job, translation in found.items() if translation is None]
        for group in _groups(unknown):
            served = [self._model(job) for job in group]
            answers = await _when_room(partial(self._engine.translate, group), deadline)
            deadline = time.monotonic() + _ROOM_WAIT_S
            for job, model, answer in zip(group, served, answers, strict=True):
                found[job] = own = without_invented_layout(answer, job.options.prefix)
                self._keep(job, model, own)
        return [_present(found[job]) for job in jobs]

    async def translated_or_none(self, jobs: Sequence[TranslationRequest]) -> list[TranslationResult | None]:
        """None for those with terms that the model has no tokens for; one of them is no fault of the others."""
        try:
            return list(await self.translate(jobs, patient=True))
        except InvalidRequest as refusal:
            if refusal.field != _GLOSSARY_FIELD:
                raise
            if len(jobs) == 1:
                return [None]
        half = len(jobs) // 2
        return [*await self.translated_or_none(jobs[:half]), *await self.translated_or_none(jobs[half:])]

    async def aligned(
        self, jobs: Sequence[TranslationRequest], found: Sequence[TranslationResult]
    ) -> list[TranslationResult]:
        """The same translations with their word alignments; without, where they are longer than the model reads."""
        by_model: dict[tuple[str | None, str, str], list[int]] = {}
        for number, job in enumerate(jobs):
            options = job.options
            by_model.setdefault((options.model, options.source_language, options.target_language), []).append(number)
        answers = list(found)
        for model, numbers in by_model.items():
            for start in range(0, len(numbers), _PAIRS_PER_ALIGNMENT):
                group = numbers[start : start + _PAIRS_PER_ALIGNMENT]
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
            deadline = time.monotonic() + _ROOM_WAIT_S
            return list(await _when_room(partial(self._engine.align, *model, pairs), deadline))
        except TextTooLong:
            if len(pairs) == 1:
                return [None]
        half = len(pairs) // 2
        return [*await self._alignments(model, pairs[:half]), *await self._alignments(model, pairs[half:])]

    # What is known already --------------------------------------------------------------------------------

    def known(self, job: TranslationRequest) -> TranslationResult | None:
        if not self._cache.max_bytes:
            return None
        model = self._model(job)
        return None if model is None else self._cache.get((model.name, model.version, job))

    def _keep(self, job: TranslationRequest, model: ModelInfo | None, answer: TranslationResult) -> None:
        """Not if the model was loaded again meanwhile: nobody can say then which of the two has answered."""
        if model is not None and self._cache.max_bytes and self._model(job) == model and answer.model == model.name:
            self._cache.put((model.name, model.version, job), replace(answer, usage=Usage()))

    def _model(self, job: TranslationRequest) -> ModelInfo | None:
        """The one that answers this job."""
        if not self._cache.max_bytes:
            return None
        pair = job.options.source_language, job.options.target_language
        for model in self._engine.models():
            if (model.source_language, model.target_language) == pair and job.options.model in (None, model.name):
                return model
        return None


async def in_thread_if_long(characters: int, work: Callable[[], T]) -> T:
    """What `work` gives; of long texts in a thread, so that nobody else waits for it."""
    return work() if characters <= _THREAD_CHARACTERS else await asyncio.to_thread(work)


async def _when_room(ask: Callable[[], Awaitable[T]], deadline: float) -> T:
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


def _groups(jobs: Sequence[TranslationRequest]) -> Iterator[list[TranslationRequest]]:
    group: list[TranslationRequest] = []
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


def _present(translation: TranslationResult | None) -> TranslationResult:
    assert translation is not None
    return translation
