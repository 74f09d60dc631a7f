"""Text generation: sampled continuations of a prompt."""

from __future__ import annotations

import secrets
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from app.engine import input_processor
from app.engine.admission import Demand
from app.engine.dispatch.dispatcher import gather
from app.engine.interface import Continuation, FinishReason, GenerationRequest, GenerationResult, Usage
from app.engine.metrics import recorded
from app.engine.output.output_processor import OutputProcessor, is_repetitive, total_usage
from app.engine.output.text_stream import ShowText, TextStream
from app.engine.protocol import messages as m
from app.engine.tasks import Task

LARGEST_DRAWN_SEED = 2**53  # JavaScript clients must be able to send a drawn seed back unchanged


class GenerationTask(Task):
    def stream(self, request: GenerationRequest) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
        return TextStream.opened(lambda show: self.generate(request, show))

    @recorded
    async def generate(self, request: GenerationRequest, show: ShowText | None = None) -> GenerationResult:
        """Generates n continuations. show: called with each new part of a text."""
        checkpoint = self.registry.named(request.model, "lyrics")
        with self.registry.in_use([checkpoint]):
            prompt = await input_processor.run_tokenizer(
                len(request.prompt), lambda: input_processor.prompt_token_ids(checkpoint, request)
            )
            wanted, most = request.decoding, request.decoding.max_new_tokens or checkpoint.config.max_new_tokens
            seed = secrets.randbelow(LARGEST_DRAWN_SEED) if wanted.seed is None else wanted.seed
            part = Demand(checkpoint.name, 1, len(prompt), most, rows=1)
            with self.admission.admitted(*[part] * request.n) as answered:

                async def sample(i: int) -> tuple[Continuation, Usage]:
                    heard = None if show is None else lambda text, tokens: show(text, i, tokens)
                    output = OutputProcessor(checkpoint, request.stop, heard, logprobs=wanted.logprobs)
                    decoding = replace(
                        wanted, max_new_tokens=most, seed=seed + i, scores=False, streamed=output.wants_tokens
                    )
                    start_by = self.admission.start_by(first=i == 0)
                    message = m.Decode(
                        0, checkpoint.key, [], list(prompt), 0.0, decoding, start_by, at_once=output.at_once
                    )
                    answer = await self.dispatcher.ask(message, len(prompt) + most, output)
                    answered(part)
                    reason: FinishReason = "stop"
                    if answer is not None and not output.stopped and not (best := answer.hypotheses[0]).finished:
                        repeats = is_repetitive(best.tokens, checkpoint.decode, request.prompt, at_end=True)
                        reason = "repetition" if repeats else "length"
                    tokens = tuple(output.written) if wanted.logprobs else None
                    usage = output.usage(len(prompt), answer.timing if answer else None)
                    return Continuation(output.text, reason, seed + i, tokens), usage

                samples = await gather(sample(i) for i in range(request.n))
        texts, usages = zip(*samples, strict=True)
        usage = replace(total_usage(usages), read_tokens=len(prompt))  # one prompt, however many texts
        return GenerationResult(texts, checkpoint.name, usage)
