"""A fake engine that says of each text it writes which tokens it has, and a reader of OpenAI's events."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from app.engine.interface import (
    Continuation,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    ScoreQuery,
    ScoreResult,
    Usage,
)
from app.engine.output.text_stream import ShowText, TextStream, WrittenToken
from tests.app.api.fake_engine import CAME, FEN, KAI, FakeEngine

Top = tuple[tuple[int, str, float], ...]
FIRST: Top = ((6, "后", -0.5), (9, "前", -1.25))
SECOND: Top = ((8, "了", -0.25), (10, "了", -3.0))  # two that read alike


@dataclass
class Writer(FakeEngine):
    """Generates two tokens after a prompt of two, with a scripted finish reason."""

    reason: FinishReason = "length"

    async def generate(self, request: GenerationRequest) -> GenerationResult:
        result = await super().generate(request)
        with_tokens = tuple(self._with_tokens(request, continuation) for continuation in result.continuations)
        return replace(result, continuations=with_tokens, usage=Usage(2, 2 * request.n))

    def stream_generation(
        self, request: GenerationRequest
    ) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
        async def work(show: ShowText) -> GenerationResult:
            whole = await self.generate(request)
            texts = [continuation.text for continuation in whole.continuations]
            tokens = [continuation.tokens or () for continuation in whole.continuations]
            for letter in range(2):
                for index, text in enumerate(texts):
                    show(text[letter], index, tokens[index][letter : letter + 1])
                    await self._pause()
                if self.late_failure is not None:
                    raise self.late_failure
            return whole

        return TextStream.opened(work)

    async def score(self, request: ScoreQuery) -> ScoreResult:
        await super().score(request)
        came = replace(CAME, top=CAME.top[: request.top_k])
        return ScoreResult(request.model or "lyrics-zh", "分开", (FEN, KAI), (None, came), -0.25, 1, 1)

    def _with_tokens(self, request: GenerationRequest, continuation: Continuation) -> Continuation:
        if not request.decoding.logprobs:
            return replace(continuation, finish_reason=self.reason)
        first, second = FIRST[: request.decoding.top_logprobs], SECOND[: request.decoding.top_logprobs]
        tokens = (
            WrittenToken(6, continuation.text[0], -0.5, first),
            WrittenToken(7, continuation.text[1], -2.5, second),
        )
        return replace(continuation, finish_reason=self.reason, tokens=tokens)


def chunks(body: str) -> list[Any]:
    """Strictly: a line each, an empty one behind, and at the end the word that ends all."""
    *events, last, nothing = body.split("\n\n")
    assert (last, nothing) == ("data: [DONE]", "")
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]
