"""A cache of sentence translations in front of the engine, and batches of sentences that the engine has room for."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from app.engine.interface import (
    AlignedWord,
    Engine,
    ModelInfo,
    TranslationOptions,
    TranslationRequest,
    TranslationResult,
    Usage,
)
from app.errors import EngineError, InvalidRequest, Overloaded, TextTooLong
from app.translation.edits import without_invented_layout
from app.translation.segments import one_plain_sentence

R = TypeVar("R")
T = TypeVar("T")
# Model, version and request, compared by value, so that requests cannot collide.
CacheKey = tuple[str, int, TranslationRequest]
ModelKey = tuple[str | None, str, str]  # model name or None, source and target language
_ENTRY_BYTES = 2000  # per entry, without its texts; measured
_TOKEN_BYTES = 200
_CHARACTER_BYTES = 4

GROUP_SENTENCES = 256
GROUP_BYTES = 32_768  # at most as many tokens, half of what the engine queues by default
_LOOKUPS_PER_TURN = 1000  # sentences between yields to the event loop
_ROOM_WAIT_S = 30.0  # for groups after the first, when part of the text is already translated
_MAX_RETRY_PAUSE_S = 2.0
_PAIRS_PER_ALIGNMENT = 128  # sentence pairs: about 8,000 tokens
_GLOSSARY_FIELD = "glossary"  # the error's field if a model cannot write a term


class TranslationCache:
    """An LRU cache of sentence translations, bounded by `max_bytes`; 0 disables it."""

    def __init__(self, max_bytes: int = 0) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._entries: OrderedDict[CacheKey, tuple[TranslationResult, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: CacheKey) -> TranslationResult | None:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key: CacheKey, translation: TranslationResult) -> None:
        request = key[2]
        required = (form for forms in request.required for form in forms)
        texts = (request.text, request.options.prefix, translation.text, *translation.alternatives, *required)
        parts = len(translation.tokens or ()) + len(translation.alignment or ())
        size = _ENTRY_BYTES + _TOKEN_BYTES * parts + _CHARACTER_BYTES * sum(map(len, texts))
        if size > self.max_bytes:
            return
        if key in self._entries:
            self.bytes -= self._entries.pop(key)[1]
        self._entries[key] = translation, size
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self.bytes -= freed


class CachedEngine:
    """Translates sentences in groups. The first group is refused without room unless `patient`; later ones wait."""

    def __init__(self, engine: Engine, cache: TranslationCache) -> None:
        self._engine, self._cache = engine, cache

    async def translate(
        self, requests: Sequence[TranslationRequest], *, patient: bool = False
    ) -> list[TranslationResult]:
        """Results in the order of `requests`; each distinct sentence is translated once."""
        deadline = time.monotonic() + _ROOM_WAIT_S if patient else 0.0
        if len(requests) == 1 and not self._cache.max_bytes:  # most requests: nothing to look up or to group
            (result,) = await retried_while_overloaded(partial(self._engine.translate, requests), deadline)
            plain = not result.alternatives and one_plain_sentence(result.text)
            return [result if plain else without_invented_layout(result, requests[0].options.prefix)]
        results: dict[TranslationRequest, TranslationResult | None] = {}
        for start in range(0, len(requests), _LOOKUPS_PER_TURN):
            results.update((request, self.cached(request)) for request in requests[start : start + _LOOKUPS_PER_TURN])
            if start:
                await asyncio.sleep(0)
        for group in _groups([request for request, result in results.items() if result is None]):
            models = [self._model(request) for request in group]
            group_results = await retried_while_overloaded(partial(self._engine.translate, group), deadline)
            deadline = time.monotonic() + _ROOM_WAIT_S
            for request, model, written in zip(group, models, group_results, strict=True):
                result = without_invented_layout(written, request.options.prefix)
                results[request] = result
                # A model reloaded in the meantime may have translated with either version: not cached.
                if model is not None and self._model(request) == model and result.model == model.name:
                    self._cache.put((model.name, model.version, request), replace(result, usage=Usage()))
        return [translated for request in requests if (translated := results[request]) is not None]

    def cached(self, request: TranslationRequest) -> TranslationResult | None:
        model = self._model(request)
        return None if model is None else self._cache.get((model.name, model.version, request))

    def _model(self, request: TranslationRequest) -> ModelInfo | None:
        """The model that will translate the request; None if there is none, or without a cache."""
        return model_for(self._engine, request.options) if self._cache.max_bytes else None

    async def translated_or_none(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult | None]:
        """`translate`, with None for requests with required terms that the model cannot write."""
        return await _each_or_none(
            requests,
            lambda part: self.translate(part, patient=True),
            lambda error: isinstance(error, InvalidRequest) and error.field == _GLOSSARY_FIELD,
        )

    async def aligned(self, pairs: Sequence[tuple[TranslationRequest, str]]) -> list[tuple[AlignedWord, ...] | None]:
        """The word alignments of requests' texts and translations, None for pairs that are too long for the model."""
        numbers_of: defaultdict[ModelKey, list[int]] = defaultdict(list)
        for number, (request, _) in enumerate(pairs):
            options = request.options
            numbers_of[options.model, options.source_language, options.target_language].append(number)
        results: list[tuple[AlignedWord, ...] | None] = [None] * len(pairs)
        for model, numbers in numbers_of.items():
            for start in range(0, len(numbers), _PAIRS_PER_ALIGNMENT):
                group = numbers[start : start + _PAIRS_PER_ALIGNMENT]
                texts = [(pairs[number][0].text, pairs[number][1]) for number in group]
                alignments = await _each_or_none(
                    texts, partial(self._align, model), lambda error: isinstance(error, TextTooLong)
                )
                for number, alignment in zip(group, alignments, strict=True):
                    results[number] = alignment
        return results

    async def _align(self, model: ModelKey, pairs: Sequence[tuple[str, str]]) -> Sequence[tuple[AlignedWord, ...]]:
        return await retried_while_overloaded(
            partial(self._engine.align, *model, pairs), time.monotonic() + _ROOM_WAIT_S
        )


def model_for(engine: Engine, options: TranslationOptions) -> ModelInfo | None:
    """The first loaded model of the language pair, and of the name if there is one."""
    pair = options.source_language, options.target_language
    candidates = (model for model in engine.models() if options.model in (None, model.name))
    return next((model for model in candidates if pair in model.language_pairs), None)


async def _each_or_none(
    items: Sequence[R], call: Callable[[Sequence[R]], Awaitable[Sequence[T]]], refuses: Callable[[EngineError], bool]
) -> list[T | None]:
    """One result per item, None for refused items, which are isolated by bisection."""
    try:
        return list(await call(items))
    except EngineError as error:
        if not refuses(error):
            raise
    if len(items) == 1:
        return [None]
    half = len(items) // 2
    return await _each_or_none(items[:half], call, refuses) + await _each_or_none(items[half:], call, refuses)


async def retried_while_overloaded(call: Callable[[], Awaitable[T]], deadline: float) -> T:
    """Repeats the call while the engine is overloaded, until `deadline` (monotonic seconds); 0: no retries."""
    pause = 0.05
    while True:
        try:
            return await call()
        except Overloaded:
            if time.monotonic() + pause > deadline:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_RETRY_PAUSE_S)


def _groups(requests: Sequence[TranslationRequest]) -> Iterator[list[TranslationRequest]]:
    group: list[TranslationRequest] = []
    size = 0
    for request in requests:
        length = len(request.text.encode())
        if group and (len(group) == GROUP_SENTENCES or size + length > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(request)
        size += length
    if group:
        yield group
