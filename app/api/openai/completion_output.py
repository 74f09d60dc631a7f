"""Choices of a completion: echoed prompts, log-probabilities, usage; whole or as a stream of chunks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from starlette.types import Scope

from app.api.errors import INTERNAL_ERROR_MESSAGE, error_body, http_error
from app.api.event_stream import EventStream
from app.api.expectations import round_nats
from app.api.openai.errors import openai_error
from app.api.openai.schemas import CompletionRequest
from app.engine.errors import EngineError
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
from app.engine.output.token_texts import WrittenToken

MIN_NATS = -9999.0  # what OpenAI's clients are told of a token that cannot come, since JSON has no infinity


@dataclass(frozen=True, slots=True)
class ChoiceToken:
    """A token of an answer's text; both None of one that nothing comes before. top: by their texts."""

    text: str
    log_probability: float | None
    top: dict[str, float] | None


@dataclass(frozen=True, slots=True)
class PromptOutput:
    """What is told of a prompt: `text` and `tokens` where it is echoed ("" and none else); how many tokens it has."""

    text: str = ""
    tokens: Sequence[ChoiceToken] = ()
    count: int = 0


NO_PROMPT = PromptOutput()


def choice_token(token: WrittenToken) -> ChoiceToken:
    return ChoiceToken(
        token.text,
        _clipped_nats(token.log_probability),
        top_logprobs([(text, each) for _, text, each in token.top], token.text, token.log_probability),
    )


def top_logprobs(top: Iterable[tuple[str, float]], text: str, log_probability: float) -> dict[str, float]:
    """The likeliest tokens of one place by their texts, and the one that came; of those that read alike the best."""
    found: dict[str, float] = {}
    for each, value in top:
        found.setdefault(each, _clipped_nats(value))
    found.setdefault(text, _clipped_nats(log_probability))
    return found


def logprobs(tokens: Iterable[ChoiceToken], offset: int = 0) -> dict[str, Any]:
    """offset: of the first token, in the text of its choice."""
    fields: dict[str, list[Any]] = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    for each in tokens:
        fields["text_offset"].append(offset)
        fields["token_logprobs"].append(each.log_probability)
        fields["tokens"].append(each.text)
        fields["top_logprobs"].append(each.top)
        offset += len(each.text)
    return fields


def choices(
    prompts: Sequence[PromptOutput], generations: Sequence[GenerationResult], *, with_logprobs: bool
) -> list[dict[str, Any]]:
    """Those of each prompt in turn."""
    return [
        {
            "index": index,
            "text": prompt.text + each.text,
            "logprobs": logprobs([*prompt.tokens, *map(choice_token, each.tokens or ())]) if with_logprobs else None,
            **finish_fields(each),
        }
        for index, (prompt, each) in enumerate(
            (prompt, each)
            for prompt, generation in zip(prompts, generations, strict=True)
            for each in generation.continuations
        )
    ]


def finish_fields(each: Continuation) -> dict[str, Any]:
    """Why. Whatever has gone round in circles did so up to its limit, or stopped; OpenAI's clients know no third."""
    circling = each.finish_reason == "repetition"
    return {
        "finish_reason": "length" if circling else each.finish_reason,
        "stop_reason": "repetition" if circling else None,
        "seed": each.seed if each.seed >= 0 else None,
    }


def usage(generations: Sequence[GenerationResult]) -> dict[str, int]:
    return count_usage(
        sum(each.usage.read_tokens for each in generations), sum(each.usage.new_tokens for each in generations)
    )


def count_usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _clipped_nats(value: float) -> float:
    return round_nats(max(value, MIN_NATS))


T = TypeVar("T")
NO_SEED = -1  # of a text that was not to be written


async def read_prompts(
    engine: Engine, body: CompletionRequest, jobs: Sequence[GenerationRequest]
) -> list[PromptOutput]:
    """What is told of each. Only those are scored of which more is told than the text that was sent."""
    if not body.echo and not body.counting:
        return [NO_PROMPT] * len(jobs)
    as_sent = body.logprobs is None and body.max_tokens > 0 and not body.counting
    if as_sent and all(job.prompt_ids is None for job in jobs):
        return [PromptOutput(job.prompt) for job in jobs]
    reports = await gather([engine.score(_score_request(job)) for job in jobs])
    return [_prompt_output(body, report) for report in reports]


def _score_request(job: GenerationRequest) -> ScoreQuery:
    top = job.decoding.top_logprobs
    return ScoreQuery(job.prompt, model=job.model, top_k=top, ids=job.prompt_ids, least_predicted=0)


def _prompt_output(body: CompletionRequest, report: ScoreResult) -> PromptOutput:
    tokens, start = [], 0
    for token, step in zip(report.tokens, report.steps, strict=True):
        end = start if token.end is None else token.end
        text, start = report.text[start:end], end  # white space before a word stands with it: the texts join to all
        if step is None or step.log_probability is None:
            tokens.append(ChoiceToken(text, None, None))
            continue
        top = top_logprobs(
            [(each.text or each.piece, each.log_probability) for each in step.top], text, step.log_probability
        )
        tokens.append(ChoiceToken(text, top[text], top))
    if not body.echo:
        return PromptOutput(count=len(tokens))
    return PromptOutput(report.text, tokens, len(tokens))


async def generate_all(
    engine: Engine, body: CompletionRequest, jobs: Sequence[GenerationRequest], prompts: Sequence[PromptOutput]
) -> list[GenerationResult]:
    """What follows each of them."""
    if body.max_tokens == 0:
        return empty_generations(jobs, prompts)
    return await gather([engine.generate(job) for job in jobs])


def empty_generations(jobs: Sequence[GenerationRequest], prompts: Sequence[PromptOutput]) -> list[GenerationResult]:
    """For those that have only been read."""
    nothing = Continuation("", "length", NO_SEED, ())
    return [
        GenerationResult((nothing,) * job.n, job.model or "", Usage(prompt.count))
        for job, prompt in zip(jobs, prompts, strict=True)
    ]


async def gather(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All of them, side by side; if one fails, the others are cancelled and the first failure is raised."""
    if len(work) == 1:
        return [await work[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


logger = logging.getLogger(__name__)

DONE = b"data: [DONE]\n\n"


class CompletionStream(EventStream[T]):
    """opened: what is streamed; generations: all that it came to; head: the fields that all chunks share. prompts, n:
    prompt p has the choices from p * n on; what is told of it is told first. with_usage: at the end; counting: and of
    its choice in each chunk."""

    def __init__(
        self,
        opened: AbstractAsyncContextManager[TextStream[T]],
        generations: Callable[[T], Sequence[GenerationResult]],
        write_timeout_s: float,
        *,
        head: dict[str, Any],
        prompts: Sequence[PromptOutput],
        n: int,
        with_logprobs: bool,
        with_usage: bool,
        counting: bool,
    ) -> None:
        super().__init__(opened, generations, write_timeout_s)
        self._head, self._n, self._with_logprobs = head, n, with_logprobs
        self._with_usage, self._counting = with_usage, counting
        self._prompts = [prompt for prompt in prompts for _ in range(n)]
        self._characters = [len(prompt.text) for prompt in self._prompts]  # of each choice, up to now
        self._new_tokens = [0] * len(self._prompts)
        self._echoed = False

    def _tokens(self, deltas: list[TextDelta]) -> bytes:
        """One chunk for each choice that has grown, and before the first of all one for each prompt that is echoed."""
        echoes = b"" if self._echoed else self._echoes()
        self._echoed = True
        return echoes + b"".join([self._delta(each) for each in deltas])

    def _echoes(self) -> bytes:
        return b"".join(
            [
                self._chunk(index, prompt.text, logprobs(prompt.tokens) if self._with_logprobs else None)
                for index, prompt in enumerate(self._prompts)
                if prompt.text
            ]
        )

    def _delta(self, delta: TextDelta) -> bytes:
        index, offset = delta.index, self._characters[delta.index]
        self._characters[index] += len(delta.text)
        self._new_tokens[index] += len(delta.tokens)
        shown = logprobs(map(choice_token, delta.tokens), offset) if self._with_logprobs else None
        return self._chunk(index, delta.text, shown)

    def _chunk(self, index: int, text: str, shown: dict[str, Any] | None, end: dict[str, Any] | None = None) -> bytes:
        choice = {"index": index, "text": text, "logprobs": shown, "finish_reason": None, **(end or {})}
        now = count_usage(self._prompts[index].count, self._new_tokens[index]) if self._counting else None
        return self._event([choice], now)

    def _event(self, choices: list[dict[str, Any]], used: dict[str, int] | None) -> bytes:
        fields = {**self._head, "choices": choices}
        if self._with_usage:
            fields["usage"] = used
        return format_data(fields)

    def _last(self, scope: Scope, stream: TextStream[T]) -> bytes:
        """Why each choice ended, the usage if it is wanted, and the end; or what went wrong, and the end."""
        try:
            generations = self._done(stream.result)
        except EngineError as error:
            case = http_error(scope, error)
            return _error_events(case.status, error_body(scope, case.code, case.message, case.field))
        except Exception:
            logger.exception("request %s failed in its stream", scope["state"]["request_id"])
            return _error_events(500, error_body(scope, "internal_error", INTERNAL_ERROR_MESSAGE))
        continuations = [each for generation in generations for each in generation.continuations]
        last = [self._chunk(index, "", None, finish_fields(each)) for index, each in enumerate(continuations)]
        if self._with_usage:
            last.append(self._event([], usage(generations)))
        return b"".join([*last, DONE])


def open_stream(
    engine: Engine, body: CompletionRequest, jobs: Sequence[GenerationRequest], prompts: Sequence[PromptOutput]
) -> AbstractAsyncContextManager[TextStream[list[GenerationResult]]]:
    """What follows all prompts, as one stream: that of prompt p has the indices from p * n on."""

    async def follow(job: GenerationRequest, first: int, show: ShowText) -> GenerationResult:
        async with engine.stream_generation(job) as stream:
            async for delta in stream.deltas():
                show(delta.text, first + delta.index, delta.tokens)
            return stream.result

    async def work(show: ShowText) -> list[GenerationResult]:
        if body.max_tokens == 0:
            return empty_generations(jobs, prompts)
        return await gather([follow(job, number * job.n, show) for number, job in enumerate(jobs)])

    return TextStream.opened(work)


def format_data(fields: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(fields)


def _error_events(status: int, body: dict[str, Any]) -> bytes:
    return format_data(openai_error(status, body)) + DONE
