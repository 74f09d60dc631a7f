"""Translation: source texts to beam searches, and hypotheses to results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from app.engine import input_processor
from app.engine.dispatch.dispatcher import RequestPhase, gather
from app.engine.input_processor import TokenRun, TranslationPlan, check_translation, plan_translation
from app.engine.interface import FinishReason, TranslationDetail, TranslationRequest, TranslationResult
from app.engine.metrics import recorded
from app.engine.output.notices import translation_notices
from app.engine.output.output_processor import NOT_FINITE, OutputProcessor, is_repetitive
from app.engine.output.text_stream import ShowText, TextStream
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelVersion
from app.engine.tasks import Task
from app.engine.tasks.alignment_task import AlignmentTask, SentencePair, translated_pair
from app.errors import EngineFailed
from models.decoding.options import DecodingOptions

DETAILS_OF_A_SECOND_PASS = frozenset({"tokens", "alignment"})  # need a forward pass over the finished translation
Translated = tuple[TranslationResult, SentencePair | None]


@dataclass
class TranslationTask(Task):
    """Translates sentences. defaults: the server's beam_size and length_penalty. slots: the widest beam."""

    defaults: DecodingOptions
    slots: int

    def __post_init__(self) -> None:
        self.alignment = AlignmentTask(self.registry, self.admission, self.dispatcher)

    def stream(self, request: TranslationRequest) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        async def work(show: ShowText) -> TranslationResult:
            return (await self.translate([request], lambda text: show(text, 0)))[0]

        return TextStream.opened(work)

    @recorded
    async def translate(
        self, requests: Sequence[TranslationRequest], show: Callable[[str], None] | None = None
    ) -> list[TranslationResult]:
        """Results in the order of `requests`, which are admitted or refused together. show: called with new text."""
        checkpoints, wants, characters = list[ModelVersion](), set[TranslationDetail](), 0
        for request in requests:
            options = request.options
            checkpoints.append(self.registry.for_pair(options.source_language, options.target_language, options.model))
            wants |= options.wants
            characters += len(request.text)
        for request in requests:
            check_translation(request, self.slots)

        def tokenize() -> list[TranslationPlan]:
            return [
                plan_translation(request, checkpoint, self.defaults, slots=self.slots, streamed=show is not None)
                for request, checkpoint in zip(requests, checkpoints, strict=True)
            ]

        with self.registry.in_use(checkpoints):
            plans = await input_processor.run_tokenizer(characters, tokenize)
            with self.admission.admitted(*[plan.demand for plan in plans]) as answered:

                async def translate(number: int, plan: TranslationPlan) -> Translated:
                    translated = await self._translate(plan, show, first=number == 0)
                    answered(plan.demand)
                    return translated

                translated = await gather(translate(number, plan) for number, plan in enumerate(plans))
                if wants.isdisjoint(DETAILS_OF_A_SECOND_PASS):
                    return [result for result, _ in translated]
                pairs, links, nats = [pair for _, pair in translated], "alignment" in wants, "tokens" in wants
                readings = await self.alignment.read(pairs, links=links, nats=nats)
        return [
            replace(
                result,
                alignment=words if "alignment" in request.options.wants else None,
                tokens=tokens if "tokens" in request.options.wants else None,
            )
            for request, (result, _), (words, tokens) in zip(requests, translated, readings, strict=True)
        ]

    async def _translate(self, plan: TranslationPlan, show: Callable[[str], None] | None, *, first: bool) -> Translated:
        """The result, and the pair for a second pass if its details are requested."""
        request, checkpoint, options = plan.request, plan.checkpoint, plan.request.options
        if not plan.source:  # no tokens, such as zero-width characters: nothing to translate
            if show is not None:
                show(request.text)
            certain = (0.0,) if "scores" in options.wants else None
            return TranslationResult(request.text, (), "stop", checkpoint.name, scores=certain), None
        output = OutputProcessor(checkpoint, show=show and (lambda text, tokens: show(text)), given=plan.prefix)
        finished = await self.search(checkpoint, plan.source, plan.decoding, output, first=first, prefix=plan.prefix)
        best, texts = finished.hypotheses[0], {output.text: finished.hypotheses[0]}
        others: tuple[str, ...] = ()
        if options.alternatives:
            for other in finished.hypotheses[1:]:
                texts.setdefault(checkpoint.decode((*plan.prefix, *other.tokens)), other)
            others = tuple(text for text in list(texts)[1:] if text)[: options.alternatives]
        reason: FinishReason = "stop" if best.finished else "length"
        if is_repetitive(best.tokens, checkpoint.decode, request.text):
            reason = "repetition"
        scores: tuple[float, ...] | None = None
        if "scores" in options.wants:
            scores = tuple(texts[text].score for text in (output.text, *others))
            if not all(map(math.isfinite, scores)):
                raise EngineFailed(f"{checkpoint.name} {NOT_FINITE}")
        usage = output.usage(len(plan.source), finished.timing)
        terms = [options.prefix, *(form for forms in request.required for form in forms)]
        notices = translation_notices(checkpoint, request.text, plan.source, best, reason, output.text, terms)
        result = TranslationResult(output.text, others, reason, checkpoint.name, usage, scores, notices=notices)
        if not DETAILS_OF_A_SECOND_PASS & options.wants:
            return result, None
        return result, translated_pair(checkpoint, request.text, (*plan.prefix, *best.tokens), finished=best.finished)

    async def search(
        self,
        checkpoint: ModelVersion,
        source: TokenRun,
        decoding: DecodingOptions,
        output: OutputProcessor | None = None,
        *,
        first: bool = True,
        prefix: TokenRun = (),
        phase: RequestPhase = "whole",
    ) -> m.Finished:
        """Hypotheses after `prefix`, best first. decoding: resolved. phase: "search" before an inspection."""
        start, start_by = [*checkpoint.config.target_prefix, *prefix], self.admission.start_by(first)
        message = m.Decode(0, checkpoint.key, list(source), start, 0.0, decoding, start_by)
        result = await self.dispatcher.ask(message, 2 * len(source), output, phase)
        assert result is not None, "a translation has no stop strings"
        return result
