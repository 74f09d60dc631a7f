"""Translation: from source texts to beam searches, and from hypotheses to results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import NamedTuple

from app.engine import input_processor
from app.engine.admission import Admission
from app.engine.dispatch.dispatcher import Dispatcher, Part, gather
from app.engine.errors import EngineFailed
from app.engine.input_processor import TokenRun, TranslationPlan, check_translation, plan_translation
from app.engine.interface import FinishReason, TranslationDetail, TranslationRequest, TranslationResult
from app.engine.output.output_processor import NOT_FINITE, OutputProcessor, is_repetitive
from app.engine.output.text_stream import ShowText, TextStream
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from app.engine.tasks.alignment_task import AlignmentTask, SentencePair, translated_pair
from models.decoding.hypothesis import Hypothesis
from models.decoding.options import DecodingOptions

DETAILS_OF_A_SECOND_PASS = frozenset({"tokens", "alignment"})  # of a translation that is there


class FinishedTranslation(NamedTuple):
    """sentence: what is read of it once more, where that is wanted."""

    translation: TranslationResult
    sentence: SentencePair | None = None


class TranslationTask:
    """slots: the most hypotheses that a model can have at once on a device."""

    def __init__(
        self,
        registry: ModelRegistry,
        admission: Admission,
        dispatcher: Dispatcher,
        beam_size: int,
        length_penalty: float,
        slots: int,
    ) -> None:
        self._registry, self._admission, self._dispatcher = registry, admission, dispatcher
        self.defaults, self._slots = DecodingOptions(beam_size=beam_size, length_penalty=length_penalty), slots
        self._aligning = AlignmentTask(registry, admission, dispatcher)

    async def translate(self, jobs: Sequence[TranslationRequest]) -> list[TranslationResult]:
        """In the order of `jobs`; admitted or refused together."""
        return await self._translated(jobs, None)

    def stream(self, job: TranslationRequest) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        async def work(show: ShowText) -> TranslationResult:
            return (await self._translated([job], lambda text: show(text, 0)))[0]

        return TextStream.opened(work)

    async def _translated(
        self, jobs: Sequence[TranslationRequest], show: Callable[[str], None] | None
    ) -> list[TranslationResult]:
        registry = self._registry
        found = []
        for request in jobs:
            options = request.options
            found.append(registry.for_pair(options.source_language, options.target_language, options.model))
        for request in jobs:
            check_translation(request, self._slots)
        with self._registry.in_use(found):
            plans = await input_processor.run_tokenizer(
                sum(len(job.text) for job in jobs), lambda: self._plans(jobs, found, streamed=show is not None)
            )
            with self._admission.admitted(*[plan.demand for plan in plans]) as share:

                async def one(number: int, plan: TranslationPlan) -> FinishedTranslation:
                    done = await self._translate(plan, show, first=number == 0)
                    share.answered(plan.demand)
                    return done

                done = await gather(one(number, plan) for number, plan in enumerate(plans))
                return await self._read(jobs, done)

    def _plans(
        self, requests: Sequence[TranslationRequest], checkpoints: Sequence[ModelVersion], *, streamed: bool
    ) -> list[TranslationPlan]:
        return [
            plan_translation(request, checkpoint, self.defaults, slots=self._slots, streamed=streamed)
            for request, checkpoint in zip(requests, checkpoints, strict=True)
        ]

    async def _translate(
        self, plan: TranslationPlan, show: Callable[[str], None] | None, *, first: bool
    ) -> FinishedTranslation:
        job, checkpoint, options = plan.request, plan.checkpoint, plan.request.options
        if not plan.source:  # nothing that the model reads, such as zero-width characters: nothing to translate
            if show is not None:
                show(job.text)
            certain = (0.0,) if "scores" in options.wants else None
            return FinishedTranslation(TranslationResult(job.text, (), "stop", checkpoint.name, scores=certain))
        writing = OutputProcessor(checkpoint, show=show and (lambda text, tokens: show(text)), given=plan.prefix)
        result = await self.search(checkpoint, plan.source, plan.decoding, writing, first=first, prefix=plan.prefix)
        best, texts = result.hypotheses[0], {writing.text: result.hypotheses[0]}
        others: tuple[str, ...] = ()
        if options.alternatives:
            for other in result.hypotheses[1:]:
                texts.setdefault(checkpoint.decode((*plan.prefix, *other.tokens)), other)
            others = tuple(text for text in list(texts)[1:] if text)[: options.alternatives]
        reason: FinishReason = "stop" if best.finished else "length"
        if is_repetitive(best.tokens, checkpoint.decode, job.text):
            reason = "repetition"
        usage = writing.usage(len(plan.source), result.timing)
        scores: tuple[float, ...] | None = None
        if "scores" in options.wants:
            scores = _scores(checkpoint, [texts[text] for text in (writing.text, *others)])
        answer = TranslationResult(writing.text, others, reason, checkpoint.name, usage, scores)
        if not DETAILS_OF_A_SECOND_PASS & options.wants:
            return FinishedTranslation(answer)
        tokens = (*plan.prefix, *best.tokens)
        return FinishedTranslation(answer, translated_pair(checkpoint, job.text, tokens, finished=best.finished))

    async def _read(
        self, jobs: Sequence[TranslationRequest], done: Sequence[FinishedTranslation]
    ) -> list[TranslationResult]:
        """With what is told of words and tokens where it is wanted, for all of them together."""
        answers = [each.translation for each in done]
        wants: set[TranslationDetail] = set().union(*(job.options.wants for job in jobs))
        if DETAILS_OF_A_SECOND_PASS.isdisjoint(wants):
            return answers
        there = [number for number, each in enumerate(done) if each.sentence is not None]
        sentences = [each.sentence for each in done if each.sentence is not None]
        readings = await self._aligning.read(sentences, links="alignment" in wants, nats="tokens" in wants)
        found = dict(zip(there, readings, strict=True))
        for number, job in enumerate(jobs):
            words, tokens = found.get(number, ((), ()))
            answers[number] = replace(
                answers[number],
                alignment=words if "alignment" in job.options.wants else None,
                tokens=tokens if "tokens" in job.options.wants else None,
            )
        return answers

    async def search(
        self,
        checkpoint: ModelVersion,
        source: TokenRun,
        decoding: DecodingOptions,
        writing: OutputProcessor | None = None,
        *,
        first: bool = True,
        prefix: TokenRun = (),
        part: Part = "whole",
    ) -> m.Finished:
        """The model's translations behind `prefix`, best first. decoding: with every choice made. part: "search" where
        an inspection of the best of them follows."""
        start = (*checkpoint.config.target_prefix, *prefix)
        start_by = self._admission.start_by(first)
        message = input_processor.decode_message(checkpoint, source, start, decoding, start_by=start_by)
        result = await self._dispatcher.ask(message, 2 * len(source), writing, part)
        assert result is not None, "a translation has no stop strings"
        return result


def _scores(checkpoint: ModelVersion, hypotheses: Sequence[Hypothesis]) -> tuple[float, ...]:
    """EngineFailed for one that is no number."""
    scores = tuple(each.score for each in hypotheses)
    if not all(map(math.isfinite, scores)):
        raise EngineFailed(f"{checkpoint.name} {NOT_FINITE}")
    return scores
