"""What a completion writes: echoed prompts, continuations and usage, whole or as a stream of chunks.

A stream is `data: {...}` for each new text and at last `data: [DONE]`. An error after the first text is a chunk with
OpenAI's body of an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from app.api.errors import HttpError
from app.api.event_stream import EventStream
from app.api.openai.schemas import (
    ChoiceToken,
    CompletionChoice,
    CompletionLogprobs,
    CompletionRequest,
    CompletionUsage,
    OpenAIErrorAnswer,
    top_logprobs,
)
from app.engine.interface import (
    Continuation,
    Engine,
    GenerationRequest,
    GenerationResult,
    ScoreQuery,
    ScoreResult,
    Usage,
)
from app.engine.output.text_stream import ShowText, TextDelta, TextStream

T = TypeVar("T")
Results = list[GenerationResult]
DONE = b"data: [DONE]\n\n"
NO_SEED = -1  # of a continuation of no tokens


@dataclass(frozen=True, slots=True)
class PromptOutput:
    """What an answer says of a prompt. text, tokens: empty without `echo`. count: of its tokens."""

    text: str = ""
    tokens: Sequence[ChoiceToken] = ()
    count: int = 0


async def read_prompts(
    engine: Engine, body: CompletionRequest, requests: Sequence[GenerationRequest]
) -> list[PromptOutput]:
    """One for each prompt. Only prompts of which the answer says more than their text are scored."""
    if not body.echo and not body.counting:
        return [PromptOutput()] * len(requests)
    only_texts = body.logprobs is None and body.max_tokens > 0 and not body.counting
    if only_texts and all(request.prompt_ids is None for request in requests):
        return [PromptOutput(request.prompt) for request in requests]
    results = await gather([engine.score(_score_request(request)) for request in requests])
    return [_prompt_output(body, result) for result in results]


def _score_request(job: GenerationRequest) -> ScoreQuery:
    top = job.decoding.top_logprobs
    return ScoreQuery(job.prompt, model=job.model, top_k=top, ids=job.prompt_ids, least_predicted=0)


def _prompt_output(body: CompletionRequest, result: ScoreResult) -> PromptOutput:
    tokens, start = [], 0
    for token, step in zip(result.tokens, result.steps, strict=True):
        end = start if token.end is None else token.end
        text, start = result.text[start:end], end  # with the white space before it, so that the texts join to all
        if step is None or step.log_probability is None:
            tokens.append(ChoiceToken(text, None, None))
            continue
        candidates = [(each.text or each.piece, each.log_probability) for each in step.top]
        top = top_logprobs(candidates, text, step.log_probability)
        tokens.append(ChoiceToken(text, top[text], top))
    return PromptOutput(result.text, tokens, len(tokens)) if body.echo else PromptOutput(count=len(tokens))


async def generate_all(
    engine: Engine, body: CompletionRequest, requests: Sequence[GenerationRequest], prompts: Sequence[PromptOutput]
) -> Results:
    if body.max_tokens == 0:
        return empty_results(requests, prompts)
    return await gather([engine.generate(request) for request in requests])


def empty_results(requests: Sequence[GenerationRequest], prompts: Sequence[PromptOutput]) -> Results:
    """For prompts that are only read."""
    nothing = Continuation("", "length", NO_SEED, ())
    return [
        GenerationResult((nothing,) * request.n, request.model or "", Usage(prompt.count))
        for request, prompt in zip(requests, prompts, strict=True)
    ]


async def gather(work: Sequence[Coroutine[object, object, T]]) -> list[T]:
    """All results; if one fails, the others are cancelled and the first failure is raised."""
    if len(work) == 1:
        return [await work[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def choices(
    prompts: Sequence[PromptOutput], results: Sequence[GenerationResult], *, with_logprobs: bool
) -> list[dict[str, object]]:
    """The continuations of each prompt in turn."""
    pairs = [
        (prompt, continuation)
        for prompt, result in zip(prompts, results, strict=True)
        for continuation in result.continuations
    ]
    return [
        {
            "index": index,
            "text": prompt.text + continuation.text,
            "logprobs": CompletionLogprobs.fields_of([*prompt.tokens, *map(ChoiceToken.of, continuation.tokens or ())])
            if with_logprobs
            else None,
            **CompletionChoice.end_fields(continuation),
        }
        for index, (prompt, continuation) in enumerate(pairs)
    ]


class CompletionStream(EventStream[Results]):
    """head: the fields of every chunk. Prompt p has the choices from p * n on, and is echoed first. Usage comes at the
    end where `stream_options` wants it, or of its choice in each chunk."""

    def __init__(
        self,
        opened: AbstractAsyncContextManager[TextStream[Results]],
        write_timeout_s: float,
        body: CompletionRequest,
        *,
        head: Mapping[str, object],
        prompts: Sequence[PromptOutput],
    ) -> None:
        super().__init__(opened, list, write_timeout_s)
        self._head, self._with_logprobs, self._counting = head, body.logprobs is not None, body.counting
        self._with_usage = body.stream_options is not None and body.stream_options.include_usage
        self._prompts = [prompt for prompt in prompts for _ in range(body.n)]
        self._characters = [len(prompt.text) for prompt in self._prompts]  # of each choice so far
        self._new_tokens = [0] * len(self._prompts)
        self._echoed = False

    def _token_events(self, deltas: list[TextDelta]) -> bytes:
        """One chunk for each choice that has grown; before the first, one for each echoed prompt."""
        echoes = b"" if self._echoed else self._echoes()
        self._echoed = True
        return echoes + b"".join([self._delta(delta) for delta in deltas])

    def _echoes(self) -> bytes:
        return b"".join(
            [
                self._chunk(
                    index, prompt.text, CompletionLogprobs.fields_of(prompt.tokens) if self._with_logprobs else None
                )
                for index, prompt in enumerate(self._prompts)
                if prompt.text
            ]
        )

    def _delta(self, delta: TextDelta) -> bytes:
        index, offset = delta.index, self._characters[delta.index]
        self._characters[index] += len(delta.text)
        self._new_tokens[index] += len(delta.tokens)
        logprobs = None
        if self._with_logprobs:
            logprobs = CompletionLogprobs.fields_of(map(ChoiceToken.of, delta.tokens), offset)
        return self._chunk(index, delta.text, logprobs)

    def _chunk(
        self, index: int, text: str, logprobs: dict[str, object] | None, end: Mapping[str, object] | None = None
    ) -> bytes:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": None, **(end or {})}
        usage = None
        if self._counting:
            usage = CompletionUsage.fields_of(self._prompts[index].count, self._new_tokens[index])
        return self._event([choice], usage)

    def _event(self, choices: list[dict[str, object]], usage: dict[str, int] | None) -> bytes:
        fields: dict[str, object] = {**self._head, "choices": choices}
        if self._with_usage:
            fields["usage"] = usage
        return format_data(fields)

    def _done_events(self, result: Results) -> bytes:
        """Why each choice ended, the usage, and the end."""
        continuations = [each for generation in result for each in generation.continuations]
        events = [
            self._chunk(index, "", None, CompletionChoice.end_fields(each)) for index, each in enumerate(continuations)
        ]
        if self._with_usage:
            events.append(self._event([], CompletionUsage.of_results(result)))
        return b"".join([*events, DONE])

    def _error_events(self, error: HttpError) -> bytes:
        return format_data(OpenAIErrorAnswer.from_error(error.status, error.body).model_dump()) + DONE


def open_stream(
    engine: Engine, body: CompletionRequest, requests: Sequence[GenerationRequest], prompts: Sequence[PromptOutput]
) -> AbstractAsyncContextManager[TextStream[Results]]:
    """The continuations of all prompts as one stream; those of prompt p have the indices from p * n on."""

    async def follow(job: GenerationRequest, first: int, show: ShowText) -> GenerationResult:
        async with engine.stream_generation(job) as stream:
            async for delta in stream.deltas():
                show(delta.text, first + delta.index, delta.tokens)
            return stream.result

    async def work(show: ShowText) -> Results:
        if body.max_tokens == 0:
            return empty_results(requests, prompts)
        return await gather([follow(request, number * request.n, show) for number, request in enumerate(requests)])

    return TextStream.opened(work)


def format_data(fields: Mapping[str, object]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(fields)
