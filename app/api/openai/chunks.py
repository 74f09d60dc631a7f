"""Completions as server-sent events, in OpenAI's form: `data: {...}` for each bit of text, the last one
`data: [DONE]`. What goes wrong after the first text is a last chunk with their body of an error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import msgspec
from starlette.types import Scope

from app.api.errors import OUR_FAULT, error_body, meaning
from app.api.openai.choices import Prompt, counted, ended, logprobs, told, usage
from app.api.openai.prompts import nothing_asked, together, unwritten
from app.api.openai.route import openai_error
from app.api.sse import EventStream
from app.engine.errors import EngineError
from app.engine.jobs import Engine, Generation, GenerationJob
from app.engine.streaming import Show, TextDelta, TextStream

logger = logging.getLogger(__name__)

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"


class Chunks(EventStream[T]):
    """opened: what is streamed; generations: all that it came to; head: the fields that all chunks share. prompts, n:
    prompt p has the choices from p * n on; what is told of it is told first. with_usage: at the end; counting: and of
    its choice in each chunk."""

    def __init__(
        self,
        opened: AbstractAsyncContextManager[TextStream[T]],
        generations: Callable[[T], Sequence[Generation]],
        write_timeout_s: float,
        *,
        head: dict[str, Any],
        prompts: Sequence[Prompt],
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
        shown = logprobs(map(told, delta.tokens), offset) if self._with_logprobs else None
        return self._chunk(index, delta.text, shown)

    def _chunk(self, index: int, text: str, shown: dict[str, Any] | None, end: dict[str, Any] | None = None) -> bytes:
        choice = {"index": index, "text": text, "logprobs": shown, "finish_reason": None, **(end or {})}
        now = counted(self._prompts[index].count, self._new_tokens[index]) if self._counting else None
        return self._event([choice], now)

    def _event(self, choices: list[dict[str, Any]], used: dict[str, int] | None) -> bytes:
        fields = {**self._head, "choices": choices}
        if self._with_usage:
            fields["usage"] = used
        return data(fields)

    def _last(self, scope: Scope, stream: TextStream[T]) -> bytes:
        """Why each choice ended, the usage if it is wanted, and the end; or what went wrong, and the end."""
        try:
            generations = self._done(stream.result)
        except EngineError as error:
            case = meaning(scope, error)
            return _failed(case.status, error_body(scope, case.code, case.message, case.field))
        except Exception:
            logger.exception("request %s failed in its stream", scope["state"]["request_id"])
            return _failed(500, error_body(scope, "internal_error", OUR_FAULT))
        continuations = [each for generation in generations for each in generation.continuations]
        last = [self._chunk(index, "", None, ended(each)) for index, each in enumerate(continuations)]
        if self._with_usage:
            last.append(self._event([], usage(generations)))
        return b"".join([*last, DONE])


def opened(
    engine: Engine, jobs: Sequence[GenerationJob], prompts: Sequence[Prompt]
) -> AbstractAsyncContextManager[TextStream[list[Generation]]]:
    """What follows all prompts, as one stream: that of prompt p has the indices from p * n on."""

    async def follow(job: GenerationJob, first: int, show: Show) -> Generation:
        async with engine.stream_generation(job) as stream:
            async for delta in stream.deltas():
                show(delta.text, first + delta.index, delta.tokens)
            return stream.result

    async def work(show: Show) -> list[Generation]:
        if nothing_asked(jobs):
            return unwritten(jobs, prompts)
        return await together([follow(job, number * job.n, show) for number, job in enumerate(jobs)])

    return TextStream.opened(work)


def data(fields: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(fields)


def _failed(status: int, body: dict[str, Any]) -> bytes:
    return data(openai_error(status, body)) + DONE
