"""Runs the pipeline: answers its questions by the engine, and its work between two questions in a thread where the text
is long. The only place of translation that awaits."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from app.engine.interface import Engine, ModelInfo, TranslationOptions, TranslationRequest, TranslationResult
from app.engine.output.text_stream import ShowText, TextStream
from app.errors import EngineError, TextTooLong
from app.interpreter import LONG_CHARACTERS, in_thread
from app.translation import TextRequest
from app.translation.cached_engine import CachedEngine, TranslationCache, model_for, retried_while_overloaded
from app.translation.concerns.messages import messages_in
from app.translation.edits import LayoutFilter, without_invented_layout
from app.translation.mixed_languages import MixedText
from app.translation.pipeline import Context, PreparedText, prepared, translated
from app.translation.reading import Sentence
from app.translation.sentence import or_source_text, translated_sentence
from app.translation.steps import Align, CountTokens, Question, Room, StandIns, Steps, Translate, at_once, together
from models.stand_ins import KINDS, carriers, copied_kinds

T = TypeVar("T")
_BATCH_CHARACTERS, _BATCH_TEXTS = 50_000, 1000
_CONCURRENT_SENTENCES = 16  # fills the default slots with beams of 4
_TASKS_AHEAD = 4 * _CONCURRENT_SENTENCES  # so that a slow sentence leaves slots to the later ones
_STREAM_WAIT_S = 50.0  # for later sentences of a stream, when text before them is already shown
ModelKey = tuple[str, int, str, str]  # name, version, source and target language


class Translator:
    """Translates texts and pages of any length and layout, whole or streamed. Raises `EngineError`s."""

    def __init__(self, engine: Engine, cache: TranslationCache | None = None) -> None:
        self._engine = engine
        self._cached = CachedEngine(engine, TranslationCache() if cache is None else cache)
        self._model_of = partial(model_for, engine)
        self._trials: dict[ModelKey, asyncio.Task[tuple[str, ...]]] = {}  # of stand-ins, until they are recorded

    async def translate(self, requests: Sequence[TextRequest], *, patient: bool = False) -> list[TranslationResult]:
        """Results in order, admitted or refused together, a large request by its first batch. patient: waits for room
        in a full queue."""
        results: list[TranslationResult] = []
        for batch in _batches(requests):  # pages of 2 MB have a million tags, each of which is several objects
            results += await self._translate_batch(batch, patient=patient or bool(results))
        return results

    async def _translate_batch(self, requests: Sequence[TextRequest], *, patient: bool) -> list[TranslationResult]:
        length, context = sum(len(request.text) for request in requests), Context(self._model_of)
        while True:
            try:
                steps = together([translated(request, context) for request in requests])
                return await self._run(steps, length, patient=patient)
            except TextTooLong:  # a sentence has more tokens than bytes: count the tokens of all sentences
                if context.certain:
                    raise
                context = replace(context, certain=True)

    async def _run(self, steps: Steps[T], length: int, *, patient: bool) -> T:
        """length: in characters, of the texts."""
        answers: list[Any] | None = None
        resume: Callable[[Any], list[Question]] = steps.send
        while True:
            try:
                if length <= LONG_CHARACTERS:
                    questions = resume(answers)
                else:
                    questions, ended = await in_thread(_until_end, resume, answers)
                    if ended is not None:
                        raise ended
            except StopIteration as end:
                result: T = end.value
                return result
            answers = await self._answers(questions, patient=patient) if questions else []
            patient = patient or any(isinstance(question, Translate) for question in questions)

    async def _answers(self, questions: Sequence[Question], *, patient: bool) -> list[Any]:
        groups: defaultdict[tuple[type[Question], bool], list[int]] = defaultdict(list)
        for number, question in enumerate(questions):
            groups[type(question), isinstance(question, Translate) and question.refusable].append(number)
        answers: list[Any] = [None] * len(questions)
        for (kind, refusable), numbers in groups.items():
            own: list[Any] = [questions[number] for number in numbers]
            if kind is Translate and refusable:
                found: Sequence[Any] = await self._cached.translated_or_none([each.request for each in own])
            elif kind is Translate:
                found = await self._cached.translate([each.request for each in own], patient=patient)
            elif kind is Align:
                found = await self._cached.aligned([(each.request, each.translation) for each in own])
            elif kind is Room:
                found = [await self._engine.source_room(*_names(each.options)) for each in own]
            elif kind is CountTokens:
                found = [await self._engine.source_tokens(*_names(each.options), each.texts) for each in own]
            else:
                assert kind is StandIns
                found = [await self._stand_ins_of(each.options) for each in own]
            for number, answer in zip(numbers, found, strict=True):
                answers[number] = answer
        return answers

    async def _stand_ins_of(self, options: TranslationOptions) -> tuple[str, ...]:
        """As recorded with the model, or tried when they are first needed."""
        model, pair = self._model_of(options), (options.source_language, options.target_language)
        if model is None:
            return KINDS
        if pair in model.stand_ins:
            return model.stand_ins[pair]
        key = model.name, model.version, *pair
        if key not in self._trials:
            self._trials[key] = asyncio.create_task(self._tried_stand_ins(model, replace(options, model=model.name)))
            self._trials[key].add_done_callback(lambda _: self._trials.pop(key))
        try:
            return await asyncio.shield(self._trials[key])
        except EngineError:  # such as an overloaded server: tried again by the next sentence
            return KINDS

    async def _tried_stand_ins(self, model: ModelInfo, options: TranslationOptions) -> tuple[str, ...]:
        plain = TranslationOptions(options.source_language, options.target_language, options.model)
        tried = carriers(options.source_language)
        requests = [TranslationRequest(carrier.sentence, plain) for carrier in tried]
        results = await self._cached.translate(requests, patient=True)
        kinds = copied_kinds(tried, [result.text for result in results])
        pair = options.source_language, options.target_language
        await self._engine.record_stand_ins(model.name, model.version, pair, kinds)
        return kinds

    def stream(
        self, request: TextRequest, *, patient: bool = False
    ) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        """`translate`, streamed: sentences are translated concurrently and shown in order. Pages, messages with
        branches and sentences that may need repair are shown when complete. A shown sentence that reaches the token
        limit is not retried in halves."""

        async def work(show: ShowText) -> TranslationResult:
            if request.unchanged or request.format != "text" or messages_in(request.text):
                (whole,) = await self.translate([request], patient=patient)
                show(whole.text, 0)
                return whole
            mixed = await self._run(at_once(MixedText.of, request), len(request.text), patient=patient)
            if not mixed.parted.whole:
                return await self._stream_parts(mixed, request.options.target_language, show, patient=patient)
            context = Context(self._model_of, certain=True)
            text = await self._run(prepared(mixed.parts[0], context), len(request.text), patient=patient)
            translations = await self._stream_sentences(text, show, patient=patient)
            return await self._run(at_once(text.assembled, translations), len(request.text), patient=True)

        return TextStream.opened(work)

    async def _stream_parts(
        self, text: MixedText, target_language: str, show: ShowText, *, patient: bool
    ) -> TranslationResult:
        """Streams the parts of a text of several languages, one after the other."""
        results, layout = list[TranslationResult](), text.layout(target_language)
        for before, part in zip(layout, text.parts, strict=False):
            async with self.stream(part, patient=patient or bool(results)) as stream:
                async for delta in stream.deltas():
                    show(before + delta.text, 0)
                    before = ""
            if before:
                show(before, 0)
            results.append(stream.result)
        if layout[-1]:
            show(layout[-1], 0)
        return text.joined(results, target_language)

    async def _stream_sentences(self, text: PreparedText, show: ShowText, *, patient: bool) -> list[TranslationResult]:
        """Translates and shows all sentences. An early failure of the first one is raised before any text is shown."""
        layout = text.segmented.layout(text.request.options.target_language)
        room = asyncio.Semaphore(_CONCURRENT_SENTENCES)
        shown: list[asyncio.Queue[str | None]] = [asyncio.Queue() for _ in text.sentences]  # None: end of sentence

        async def one(number: int) -> TranslationResult:
            sentence, put = text.sentences[number], shown[number].put_nowait
            async with room:
                try:
                    if sentence.plain and self._cached.cached(sentence.request) is None:
                        return await self._stream_sentence(sentence, put, patient=patient or number > 0)
                    steps, length = translated_sentence(sentence), len(sentence.source)
                    translation = await self._run(steps, length, patient=patient or number > 0)
                    put(translation.text)
                    return translation
                finally:
                    put(None)

        # Tasks for a few sentences ahead of the one that is shown: those of a long text would start in one iteration.
        tasks: deque[asyncio.Task[TranslationResult]] = deque()
        numbers = iter(range(len(text.sentences)))
        results: list[TranslationResult] = []
        try:
            for before, queue in zip(layout, shown, strict=False):
                tasks += [asyncio.create_task(one(number)) for number in islice(numbers, _TASKS_AHEAD - len(tasks))]
                while (part := await queue.get()) is not None:
                    if part:
                        show(before + part, 0)
                        before = ""
                results.append(await tasks[0])
                tasks.popleft()
                if before:
                    show(before, 0)
            if layout[-1]:
                show(layout[-1], 0)
            return results
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # the first exception is already raised

    async def _stream_sentence(
        self, sentence: Sentence, put: Callable[[str], None], *, patient: bool
    ) -> TranslationResult:
        """Streams one sentence. patient: waits while the engine is overloaded, as sentences after the first do."""
        prefix = sentence.options.prefix

        async def attempt() -> TranslationResult:
            shown, layout_filter = False, LayoutFilter(prefix)
            async with self._engine.stream_translation(sentence.request) as stream:
                async for delta in stream.deltas():
                    if part := layout_filter.add(delta.text):
                        put(part)
                        shown = True
                result = without_invented_layout(stream.result, prefix)
            if not shown:
                result = or_source_text(sentence.source, result)
                put(result.text)
            return result

        return await retried_while_overloaded(attempt, time.monotonic() + _STREAM_WAIT_S if patient else 0.0)


def _until_end(
    resume: Callable[[Any], list[Question]], answers: list[Any] | None
) -> tuple[list[Question], StopIteration | None]:
    """A StopIteration cannot leave a thread."""
    try:
        return resume(answers), None
    except StopIteration as end:
        return [], end


def _names(options: TranslationOptions) -> tuple[str | None, str, str]:
    return options.model, options.source_language, options.target_language


def _batches(requests: Sequence[TextRequest]) -> Iterator[Sequence[TextRequest]]:
    """Texts that are prepared and translated together. Most requests are one batch; of a large one the event loop
    handles a batch at a time."""
    start = size = 0
    for number, request in enumerate(requests, 1):
        size += len(request.text)
        if size >= _BATCH_CHARACTERS or number - start == _BATCH_TEXTS:
            yield requests[start:number]
            start, size = number, 0
    if start < len(requests):
        yield requests[start:]
