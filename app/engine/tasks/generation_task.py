"""Generation: from a prompt to sampled continuations."""

from __future__ import annotations

import secrets
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from app.engine import input_processor
from app.engine.admission import Admission, Demand
from app.engine.dispatch.dispatcher import Dispatcher, gather
from app.engine.interface import Continuation, FinishReason, GenerationRequest, GenerationResult, Usage
from app.engine.output.output_processor import OutputProcessor, combined_usage, is_repetitive
from app.engine.output.text_stream import ShowText, TextStream
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from models.decoding.options import DecodingOptions

LARGEST_DRAWN_SEED = 2**53  # JavaScript clients must be able to send a drawn seed back unchanged


class GenerationTask:
    def __init__(self, registry: ModelRegistry, admission: Admission, dispatcher: Dispatcher) -> None:
        self._registry, self._admission, self._dispatcher = registry, admission, dispatcher

    def stream(self, request: GenerationRequest) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
        return TextStream.opened(lambda show: self.generate(request, show))

    async def generate(self, request: GenerationRequest, show: ShowText | None = None) -> GenerationResult:
        """show: hears each text as it grows."""
        checkpoint = self._registry.named(request.model, "lyrics")
        with self._registry.in_use([checkpoint]):
            prompt = await input_processor.run_tokenizer(
                len(request.prompt), lambda: input_processor.prompt_token_ids(checkpoint, request)
            )
            wanted, most = request.decoding, request.decoding.max_new_tokens or checkpoint.config.max_new_tokens
            seed = secrets.randbelow(LARGEST_DRAWN_SEED) if wanted.seed is None else wanted.seed
            part = Demand(checkpoint.name, 1, len(prompt), most, rows=1)
            with self._admission.admitted(*[part] * request.n) as share:

                async def sample(i: int) -> tuple[Continuation, Usage]:
                    told = None if show is None else lambda text, tokens: show(text, i, tokens)
                    output = OutputProcessor(checkpoint, request.stop, told, logprobs=wanted.logprobs)
                    decoding = replace(
                        wanted, max_new_tokens=most, seed=seed + i, scores=False, streamed=output.wants_tokens
                    )
                    continued = await self._continue(checkpoint, request, prompt, decoding, output, first=i == 0)
                    share.answered(part)
                    return continued

                samples = await gather(sample(i) for i in range(request.n))
        texts, usages = zip(*samples, strict=True)
        return GenerationResult(texts, checkpoint.name, combined_usage(usages))

    async def _continue(
        self,
        checkpoint: ModelVersion,
        request: GenerationRequest,
        prompt: tuple[int, ...],
        decoding: DecodingOptions,
        output: OutputProcessor,
        *,
        first: bool,
    ) -> tuple[Continuation, Usage]:
        start_by = self._admission.start_by(first)
        message = m.Decode(0, checkpoint.key, [], list(prompt), 0.0, decoding, start_by, at_once=output.at_once)
        result: m.Finished | None = await self._dispatcher.ask(message, len(prompt) + decoding.token_limit, output)
        reason: FinishReason = "stop"
        if result is not None:
            best = result.hypotheses[0]
            reason = "stop" if output.stopped or best.finished else "length"
            if reason == "length" and is_repetitive(best.tokens, checkpoint.decode, request.prompt, at_end=True):
                reason = "repetition"
        usage = output.usage(len(prompt), result.timing if result else None)
        tokens = tuple(output.written) if decoding.logprobs else None
        return Continuation(output.text, reason, decoding.seed or 0, tokens), usage
