"""Generation: from a prompt to sampled continuations."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from app.engine import input_processor
from app.engine.admission import Admission, Demand
from app.engine.dispatch.dispatcher import Dispatcher, gather
from app.engine.interface import Continuation, FinishReason, GenerationRequest, GenerationResult, Usage
from app.engine.output.output_processor import OutputProcessor, combined_usage, is_repetitive
from app.engine.output.text_stream import ShowText, TextStream, WrittenToken
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from models.decoding.options import DecodingOptions

LARGEST_DRAWN_SEED = 2**53  # JavaScript clients must be able to send a drawn seed back unchanged


class GenerationTask:
    def __init__(self, registry: ModelRegistry, admission: Admission, dispatcher: Dispatcher) -> None:
        self._registry, self._admission, self._dispatcher = registry, admission, dispatcher

    async def generate(self, job: GenerationRequest) -> GenerationResult:
        return await self._generated(job, None)

    def stream(self, job: GenerationRequest) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
        return TextStream.opened(lambda show: self._generated(job, show))

    async def _generated(self, job: GenerationRequest, show: ShowText | None) -> GenerationResult:
        checkpoint = self._registry.named(job.model, "lyrics")
        with self._registry.in_use([checkpoint]):
            prompt = await input_processor.run_tokenizer(
                len(job.prompt), lambda: input_processor.prompt_token_ids(checkpoint, job)
            )
            wanted, most = job.decoding, job.decoding.max_new_tokens or checkpoint.config.max_new_tokens
            seed = secrets.randbelow(LARGEST_DRAWN_SEED) if wanted.seed is None else wanted.seed
            part = Demand(checkpoint.name, 1, len(prompt), most, rows=1)
            with self._admission.admitted(*[part] * job.n) as share:

                async def one(i: int) -> tuple[Continuation, Usage]:
                    writing = OutputProcessor(checkpoint, job.stop, _showing(show, i), logprobs=wanted.logprobs)
                    decoding = replace(
                        wanted, max_new_tokens=most, seed=seed + i, scores=False, streamed=writing.wants_tokens
                    )
                    done = await self._continue(checkpoint, job, prompt, decoding, writing, first=i == 0)
                    share.answered(part)
                    return done

                done = await gather(one(i) for i in range(job.n))
        return GenerationResult(
            tuple(each for each, _ in done), checkpoint.name, combined_usage([usage for _, usage in done])
        )

    async def _continue(
        self,
        checkpoint: ModelVersion,
        job: GenerationRequest,
        prompt: tuple[int, ...],
        decoding: DecodingOptions,
        writing: OutputProcessor,
        *,
        first: bool,
    ) -> tuple[Continuation, Usage]:
        start_by = self._admission.start_by(first)
        message = input_processor.decode_message(
            checkpoint, (), prompt, decoding, start_by=start_by, at_once=writing.at_once
        )
        work = len(prompt) + decoding.token_limit
        result: m.Finished | None = await self._dispatcher.ask(message, work, writing)
        reason: FinishReason = "stop"
        if result is not None:
            best = result.hypotheses[0]
            reason = "stop" if writing.stopped or best.finished else "length"
            if reason == "length" and is_repetitive(best.tokens, checkpoint.decode, job.prompt, at_end=True):
                reason = "repetition"
        usage = writing.usage(len(prompt), result.timing if result else None)
        tokens = tuple(writing.written) if decoding.logprobs else None
        return Continuation(writing.text, reason, decoding.seed or 0, tokens), usage


def _showing(show: ShowText | None, index: int) -> Callable[[str, Sequence[WrittenToken]], None] | None:
    return None if show is None else lambda text, tokens: show(text, index, tokens)
