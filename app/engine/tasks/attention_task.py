"""Attention maps and walkthroughs of a translator, over a forced target or the model's own translation."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.engine import input_processor
from app.engine.admission import Demand
from app.engine.dispatch.dispatcher import RequestPhase
from app.engine.input_processor import check_attention_size
from app.engine.interface import (
    AttentionQuery,
    AttentionResult,
    InspectionTimings,
    SentenceQuery,
    WalkthroughQuery,
    WalkthroughResult,
)
from app.engine.output import token_views
from app.engine.output.token_views import SourceSide, source_side, target_side
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelVersion
from app.engine.tasks import Task
from app.engine.tasks.alignment_task import SentencePair
from app.engine.tasks.translation_task import TranslationTask
from models.checkpoint import WEIGHTS
from models.decoding.options import DecodingOptions, Hypothesis

MEASURES = ("encoder_layers", "decoder_layers", "heads", "head_width", "norm")
NO_TRANSLATOR = "is a lyricist and has no attention to show; name a translator."


@dataclass(frozen=True, slots=True)
class Sentence(SentencePair):
    """An inspected pair. translation: the model's own, after `prefix`; None for a forced target."""

    translation: Hypothesis | None
    decoding: DecodingOptions
    prefix: tuple[int, ...]
    encode_s: float
    decode_s: float | None

    @property
    def phase(self) -> RequestPhase:
        return "whole" if self.translation is None else "inspection"

    @property
    def found_logprob(self) -> float | None:
        """The log-probability of the beam search's translation; None for greedy search, which returns NaN."""
        if self.translation is None or math.isnan(self.translation.log_probability):
            return None
        return self.translation.log_probability


@dataclass
class AttentionTask(Task):
    translation: TranslationTask

    async def attention(self, query: AttentionQuery) -> AttentionResult:
        checkpoint = self.registry.translator(query.model, query.target_language, NO_TRANSLATOR)
        config = checkpoint.config
        start = len(config.target_prefix)

        def check(source: int, given: int) -> None:
            likely = start + source if query.target is None else 0  # a translation is about as long as its source
            check_attention_size(config, query, source, start + given, likely)

        async with self._sentence(checkpoint, query, check) as sentence:
            source, target, began = sentence.source, sentence.target, time.perf_counter()
            check_attention_size(config, query, len(source.tokens), len(target.inputs))
            message = m.InspectAttention(
                0,
                checkpoint.key,
                source.ids,
                [token.id for token in target.inputs],
                [token.id for token in target.outputs],
                query.selection,
                source.units,
                [token.word for token in target.outputs],
                source.starts,
                source.ends,
                sentence.decoding,
                list(sentence.prefix),
            )
            answer = await self.dispatcher.ask(message, sentence.tokens, phase=sentence.phase)
            took = InspectionTimings(sentence.encode_s, sentence.decode_s, time.perf_counter() - began)
        return AttentionResult(
            model=checkpoint.name,
            network={"sha256": config.files.get(WEIGHTS)} | {name: config.architecture[name] for name in MEASURES},
            source_text=source.text,
            target_text=target.text,
            forced=query.target is not None,
            finished=target.finished,
            source_tokens=source.tokens,
            input_tokens=target.inputs,
            output_tokens=target.outputs,
            maps=answer.maps,
            findings=token_views.with_texts(checkpoint, answer.findings),
            found_logprob=sentence.found_logprob if query.prefix is None else None,
            max_source_tokens=config.max_source_tokens,
            max_target_tokens=config.max_new_tokens,
            took=took,
        )

    async def walkthrough(self, query: WalkthroughQuery) -> WalkthroughResult:
        checkpoint = self.registry.translator(query.model, query.target_language, NO_TRANSLATOR)
        async with self._sentence(checkpoint, query) as sentence:
            source, target = sentence.source, sentence.target
            inputs = [token.id for token in target.inputs]
            message = m.InspectWalkthrough(0, checkpoint.key, source.ids, inputs, query.focus)
            answer = await self.dispatcher.ask(message, sentence.tokens, phase=sentence.phase)
        return WalkthroughResult(
            model=checkpoint.name,
            source_text=source.text,
            target_text=target.text,
            forced=query.target is not None,
            source_tokens=source.tokens,
            input_tokens=target.inputs,
            walkthrough=token_views.walkthrough_with_texts(checkpoint, answer.walkthrough),
        )

    @asynccontextmanager
    async def _sentence(
        self,
        checkpoint: ModelVersion,
        query: SentenceQuery,
        check: Callable[[int, int], None] = lambda source, given: None,
    ) -> AsyncIterator[Sentence]:
        """Admits the query and yields the sentence, with the model's translation if no target is forced. check: called
        with the number of source and forced target tokens before any compute."""
        clock = time.perf_counter
        began, forced = clock(), query.target is not None
        size = len(query.source or "") + len(query.target or query.prefix or "")
        with self.registry.in_use([checkpoint]):
            source, given = await input_processor.run_tokenizer(size, lambda: _source_and_given(checkpoint, query))
            tokens = len(source.tokens)
            check(tokens, len(given))
            decoding = input_processor.resolve_search(query.decoding, self.translation.defaults, checkpoint, source.ids)
            new_tokens, rows = (len(given), 0) if forced else (tokens, decoding.beam)
            with self.admission.admitted(Demand(checkpoint.name, 1, tokens, new_tokens, rows)):
                encode_s, decode_s, translation, prefix = clock() - began, None, None, () if forced else tuple(given)
                if not forced:
                    self.dispatcher.turns.check_room()  # before the search, which would be for nothing
                    began = clock()
                    searched = await self.translation.search(
                        checkpoint, tuple(source.ids), decoding, prefix=prefix, phase="search"
                    )
                    translation, decode_s = searched.hypotheses[0], clock() - began
                    given = [*given, *translation.tokens]
                began, finished = clock(), translation is None or translation.finished
                target = target_side(checkpoint, query.target, given, finished=finished)
                encode_s += clock() - began
                yield Sentence(checkpoint, source, target, translation, decoding, prefix, encode_s, decode_s)


def _source_and_given(checkpoint: ModelVersion, query: SentenceQuery) -> tuple[SourceSide, list[int]]:
    """The source side, and the ids of the forced target or prefix."""
    if query.source_ids is None:
        assert query.source is not None
        input_processor.required_source_ids(checkpoint, query.source)
    else:
        input_processor.check_given_source(checkpoint, query.source_ids)
    given = list[int]()
    if query.target is not None:
        given = input_processor.target_token_ids(checkpoint, query.target, "target")
    elif query.prefix is not None:
        given = input_processor.target_token_ids(checkpoint, query.prefix, "prefix")
    return source_side(checkpoint, query.source, query.source_ids), given
