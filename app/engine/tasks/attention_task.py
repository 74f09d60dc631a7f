"""Attention and walkthroughs of a translator, over a given target or the model's own translation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from app.engine import input_processor
from app.engine.admission import Admission, Demand
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.input_processor import check_attention_size
from app.engine.interface import AttentionQuery, AttentionResult, InspectionTimings, WalkthroughQuery, WalkthroughResult
from app.engine.output import token_views
from app.engine.output.token_views import SentenceSides, SourceSide, source_side, target_side
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from app.engine.tasks.translation_task import TranslationTask
from app.errors import InvalidRequest


class AttentionTask:
    def __init__(
        self, registry: ModelRegistry, admission: Admission, dispatcher: Dispatcher, translating: TranslationTask
    ) -> None:
        self._registry, self._admission, self._dispatcher = registry, admission, dispatcher
        self._translating = translating

    async def attention(self, job: AttentionQuery) -> AttentionResult:
        checkpoint = inspected_translator(self._registry, job.model)

        def message(sides: SentenceSides) -> m.InspectAttention:
            source, target = sides.source, sides.target
            check_attention_size(checkpoint.config, job, len(source.tokens), len(target.inputs))
            return m.InspectAttention(
                0,
                checkpoint.key,
                source.ids,
                [token.id for token in target.inputs],
                [token.id for token in target.outputs],
                job.selection,
                job.max_values,
                source.units,
                [token.word for token in target.outputs],
                source.starts,
                source.ends,
                sides.decoding,
                list(sides.prefix),
            )

        start = len(checkpoint.config.target_prefix)

        def check(source: int, given: int) -> None:
            likely = start + source if job.target is None else 0  # a translation is about as long
            check_attention_size(checkpoint.config, job, source, start + given, likely)

        sides, result, took = await self._seen(checkpoint, job, check, message)
        source, target, found = sides.source, sides.target, sides.found
        return AttentionResult(
            model=checkpoint.name,
            network=token_views.network_facts(checkpoint),
            source_text=source.text,
            target_text=target.text,
            forced=job.target is not None,
            finished=target.finished,
            source_tokens=source.tokens,
            input_tokens=target.inputs,
            output_tokens=target.outputs,
            maps=result.maps,
            findings=token_views.with_texts(checkpoint, result.findings),
            found_logprob=None if found is None or job.prefix is not None else finite_or_none(found.log_probability),
            max_source_tokens=checkpoint.config.max_source_tokens,
            max_target_tokens=checkpoint.config.max_new_tokens,
            took=took,
        )

    async def walkthrough(self, job: WalkthroughQuery) -> WalkthroughResult:
        checkpoint = inspected_translator(self._registry, job.model)
        texts = AttentionQuery(job.source, job.target, job.model)

        def message(sides: SentenceSides) -> m.InspectWalkthrough:
            inputs = [token.id for token in sides.target.inputs]
            return m.InspectWalkthrough(0, checkpoint.key, sides.source.ids, inputs, job.focus)

        sides, result, _ = await self._seen(checkpoint, texts, lambda source, given: None, message)
        return WalkthroughResult(
            model=checkpoint.name,
            source_text=sides.source.text,
            target_text=sides.target.text,
            forced=job.target is not None,
            source_tokens=sides.source.tokens,
            input_tokens=sides.target.inputs,
            walkthrough=token_views.walkthrough_with_texts(checkpoint, result.walkthrough),
        )

    async def _seen(
        self,
        checkpoint: ModelVersion,
        job: AttentionQuery,
        check: Callable[[int, int], None],
        message: Callable[[SentenceSides], m.Inspection],
    ) -> tuple[SentenceSides, Any, InspectionTimings]:
        """Both sides of the sentence, what a device answers to the message about them, and what that took. check:
        called with the tokens of the source and of the target that is given, before anything is computed."""
        clock = time.perf_counter
        began = clock()
        given_text = job.target if job.target is not None else job.prefix
        with self._registry.in_use([checkpoint]):
            size = len(job.source or "") + len(given_text or "")
            source, given = await input_processor.run_tokenizer(
                size, lambda: _tokenized_sides(checkpoint, job, given_text)
            )
            check(len(source.tokens), len(given))
            defaults, tokens = self._translating.defaults, len(source.tokens)
            decoding = input_processor.resolve_search(job.decoding, defaults, checkpoint, tokens)
            forced = job.target is not None
            new_tokens = len(given) if forced else tokens
            demand = Demand(checkpoint.name, 1, tokens, new_tokens, 0 if forced else decoding.beam)
            with self._admission.admitted(demand):
                found, prefix = None, () if forced else tuple(given)
                read = clock()
                if not forced:
                    result = await self._translating.search(
                        checkpoint, tuple(source.ids), decoding, prefix=prefix, part="search"
                    )
                    found = result.hypotheses[0]
                    given = [*given, *found.tokens]
                searched = clock()
                target = target_side(checkpoint, job.target, given, finished=found is None or found.finished)
                sides, asked = SentenceSides(source, target, found, decoding, prefix), clock()
                work = tokens + len(target.inputs)
                answer = await self._dispatcher.ask(message(sides), work, part="whole" if forced else "look")
                took = InspectionTimings(
                    read - began + asked - searched, None if forced else searched - read, clock() - asked
                )
                return sides, answer, took


def _tokenized_sides(checkpoint: ModelVersion, job: AttentionQuery, target: str | None) -> tuple[SourceSide, list[int]]:
    """The source, and the ids of what is given of the target."""
    if job.source_ids is None:
        assert job.source is not None
        if not input_processor.source_token_ids(checkpoint, job.source, "source"):
            raise InvalidRequest("The source has no tokens that the model reads.", field="source")
    else:
        input_processor.check_given_source(checkpoint, job.source_ids)
    given = (
        []
        if target is None
        else input_processor.target_token_ids(checkpoint, target, "prefix" if job.target is None else "target")
    )
    return source_side(checkpoint, job.source, job.source_ids), given


def finite_or_none(log_probability: float) -> float | None:
    """NaN is that of a greedy search, which adds nothing up unless it is asked to."""
    return None if math.isnan(log_probability) else log_probability


def inspected_translator(registry: ModelRegistry, name: str | None) -> ModelVersion:
    """A model of any kind if it is named, so that what it cannot show is said of it by name."""
    if name is not None and name in registry.versions:
        checkpoint = registry.versions[name]
        if "source" not in checkpoint.tokenizers:
            raise InvalidRequest(
                f"{name} is a lyricist and has no attention to show; name a translator.", field="model"
            )
    return registry.named(name, "translator")
