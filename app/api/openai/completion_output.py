"""What a completion writes: echoed prompts, continuations and usage, whole or as a stream of chunks. An error after the
first text is a chunk with OpenAI's body of an error."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool

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
PROMPTS_TOGETHER = 4  # inspections take turns anyway, and each prompt is tokenized when its turn comes
LARGE_ANSWER = 2_000  # log-probabilities, some 5 ms
NO_SEED = -1  # of a continuation of no tokens


@dataclass(frozen=True, slots=True)
class PromptOutput:
    """What an answer says of a prompt. text, tokens: empty without `echo`. count: of its tokens."""

    text: str = ""
    tokens: Sequence[ChoiceToken] = ()
    count: int = 0


@dataclass(slots=True)
class Completion:
    """requests: one for each prompt. prompts: set by `write`, each once for each of its n choices."""

    engine: Engine
    body: CompletionRequest
    requests: Sequence[GenerationRequest]
    prompts: Sequence[PromptOutput] = ()

    async def write(self, show: ShowText | None = None) -> Results:
        """The continuations of all prompts. show: gets new texts; choice c of prompt p has the index p * n + c."""
        prompts = await self._read_prompts()
        n = self.body.n
        self.prompts = [prompt for prompt in prompts for _ in range(n)]
        if self.body.max_tokens == 0:
            nothing = (Continuation("", "length", NO_SEED, ()),) * n
            return [GenerationResult(nothing, "", Usage(prompt.count)) for prompt in prompts]
        if show is None:
            return await gather([self.engine.generate(request) for request in self.requests])
        return await gather([self._follow(request, p * n, show) for p, request in enumerate(self.requests)])

    async def _follow(self, request: GenerationRequest, first: int, show: ShowText) -> GenerationResult:
        async with self.engine.stream_generation(request) as stream:
            async for delta in stream.deltas():
                show(delta.text, first + delta.index, delta.tokens)
            return stream.result

    async def _read_prompts(self) -> list[PromptOutput]:
        """Only prompts of which the answer says more than their text are scored."""
        body, requests = self.body, self.requests
        tells_tokens = body.logprobs is not None or body.max_tokens == 0 or any(each.prompt_ids for each in requests)
        if not body.counting and not (body.echo and tells_tokens):
            return [PromptOutput(request.prompt if body.echo else "") for request in requests]
        queries = [
            ScoreQuery(each.prompt, model=each.model, top_k=body.logprobs or 0, ids=each.prompt_ids, least_predicted=0)
            for each in requests
        ]
        together = asyncio.Semaphore(PROMPTS_TOGETHER)

        async def read(query: ScoreQuery) -> PromptOutput:
            async with together:
                result = await self.engine.score(query)
                tokens = await run_in_threadpool(_prompt_tokens, result) if self.is_large else _prompt_tokens(result)
            return PromptOutput(result.text, tokens, len(tokens)) if body.echo else PromptOutput(count=len(tokens))

        return await gather([read(query) for query in queries])

    @property
    def is_large(self) -> bool:
        """Whether making the answer would hold the event loop, so that a thread has to."""
        body = self.body
        tokens = sum(map(len, body.prompts)) * body.echo + len(body.prompts) * body.max_tokens
        return body.logprobs is not None and body.n * tokens * (1 + body.logprobs) > LARGE_ANSWER

    def choices(self, results: Results) -> list[CompletionChoice]:
        continuations = [each for result in results for each in result.continuations]
        choices = []
        for index, (prompt, continuation) in enumerate(zip(self.prompts, continuations, strict=True)):
            logprobs = None
            if self.body.logprobs is not None:
                tokens = [*prompt.tokens, *map(ChoiceToken.of, continuation.tokens or ())]
                logprobs = CompletionLogprobs.of(tokens)
            text, end = prompt.text + continuation.text, CompletionChoice.end_fields(continuation)
            choices.append(CompletionChoice(index=index, text=text, logprobs=logprobs, **end))
        return choices


def _prompt_tokens(result: ScoreResult) -> list[ChoiceToken]:
    tokens, start = [], 0
    for token, step in zip(result.tokens, result.steps, strict=True):
        end = start if token.end is None else token.end
        text, start = result.text[start:end], end  # with the white space before it, so that the texts join to all
        if step is None or step.log_probability is None:
            tokens.append(ChoiceToken(text, None, None))
            continue
        candidates = [(each.text or each.piece, each.logprob) for each in step.top]
        top = top_logprobs(candidates, text, step.log_probability)
        tokens.append(ChoiceToken(text, top[text], top))
    return tokens


async def gather(work: Sequence[Coroutine[object, object, T]]) -> list[T]:
    """All results; if one fails, the others are cancelled and the first failure is raised. One begins per
    iteration of the event loop: each tokenizes its prompt, and hundreds of prompts take seconds."""
    if len(work) == 1:
        return [await work[0]]
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for each in work:
                tasks.append(group.create_task(each))
                await asyncio.sleep(0)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        for each in work[len(tasks) :]:  # which have not begun, where one failed or the client has left
            each.close()
    return [task.result() for task in tasks]


class CompletionStream(EventStream[Results]):
    """head: the fields of every chunk. Usage comes at the end, or in each chunk, as `stream_options` says."""

    def __init__(self, completion: Completion, head: Mapping[str, object], write_timeout_s: float) -> None:
        super().__init__(TextStream.opened(completion.write), list, write_timeout_s)
        self._completion, self._body, self._head = completion, completion.body, head
        choices = len(completion.requests) * completion.body.n
        self._characters, self._new_tokens = [0] * choices, [0] * choices  # of each choice so far
        self._echoed = False

    def _token_events(self, deltas: list[TextDelta]) -> Iterator[bytes]:
        """One chunk for each choice that has grown; before the first, one for each echoed prompt."""
        if not self._echoed:
            self._echoed = True
            for index, prompt in enumerate(self._completion.prompts):
                if prompt.text:
                    yield self._chunk(index, prompt.text, prompt.tokens)
        for delta in deltas:
            self._new_tokens[delta.index] += len(delta.tokens)
            yield self._chunk(delta.index, delta.text, map(ChoiceToken.of, delta.tokens))

    def _chunk(
        self, index: int, text: str, tokens: Iterable[ChoiceToken] | None, end: Mapping[str, object] | None = None
    ) -> bytes:
        logprobs = None
        if tokens is not None and self._body.logprobs is not None:
            logprobs = CompletionLogprobs.of(tokens, self._characters[index])
        self._characters[index] += len(text)
        read = self._completion.prompts[index].count
        usage = CompletionUsage.of(read, self._new_tokens[index]) if self._body.counting else None
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": None, **(end or {})}
        return self._event([choice], usage)

    def _event(self, choices: list[dict[str, object]], usage: CompletionUsage | None) -> bytes:
        with_usage = {"usage": usage} if self._body.with_usage else {}
        return format_data({**self._head, "choices": choices, **with_usage})

    def _done_events(self, result: Results) -> bytes:
        ended = enumerate(each for generation in result for each in generation.continuations)
        events = [self._chunk(index, "", None, CompletionChoice.end_fields(each)) for index, each in ended]
        if self._body.with_usage:
            events.append(self._event([], CompletionUsage.of_results(result)))
        return b"".join([*events, DONE])

    def _error_events(self, error: HttpError) -> bytes:
        return format_data(OpenAIErrorAnswer.from_error(error.status, error.body)) + DONE


def format_data(fields: object) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(fields)
