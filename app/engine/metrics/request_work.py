"""What the engine did for one HTTP request, summed over its translations and generations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from app.engine.interface import (
    Engine,
    GenerationRequest,
    GenerationResult,
    TranslationRequest,
    TranslationResult,
    Usage,
)
from app.engine.output.text_stream import TextStream

R = TypeVar("R", TranslationResult, GenerationResult)


@dataclass(slots=True)
class RequestWork:
    """sequences: those that were answered. queued_s, first_token_s: the longest of any of them; total_s: the calls'
    together, each as long as its longest sequence. failed: the code of the last error, which may have been tried
    again; broken: whether it ended a stream that had begun, so that no status tells of it."""

    sequences: int = 0
    model: str = ""
    read_tokens: int = 0
    new_tokens: int = 0
    queued_s: float | None = None
    first_token_s: float | None = None
    total_s: float | None = None
    failed: str = ""
    broken: bool = False

    def add(self, model: str, sequences: int, usages: Sequence[Usage]) -> None:
        """The answer to one call; usages: at least one."""
        self.model = model
        self.sequences += sequences
        for usage in usages:
            self.read_tokens += usage.read_tokens
            self.new_tokens += usage.new_tokens
            if usage.queued_s is not None:
                self.queued_s = max(usage.queued_s, self.queued_s or 0.0)
            if usage.first_token_s is not None:
                self.first_token_s = max(usage.first_token_s, self.first_token_s or 0.0)
        self.total_s = (self.total_s or 0.0) + max(usage.total_s for usage in usages)


CURRENT_WORK: ContextVar[RequestWork | None] = ContextVar("work", default=None)  # of this task's HTTP request


class CountingEngine:
    """Adds translations and generations to the request's work; everything else is the engine's own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    async def translate(self, jobs: Sequence[TranslationRequest]) -> list[TranslationResult]:
        with _counted_work() as work:
            results = await self._engine.translate(jobs)
            if results:
                work.add(results[0].model, len(jobs), [result.usage for result in results])
            return results

    async def generate(self, job: GenerationRequest) -> GenerationResult:
        with _counted_work() as work:
            result = await self._engine.generate(job)
            work.add(result.model, job.n, [result.usage])
            return result

    @asynccontextmanager
    async def stream_translation(self, job: TranslationRequest) -> AsyncIterator[TextStream[TranslationResult]]:
        async with _counted_stream(1, self._engine.stream_translation(job)) as stream:
            yield stream

    @asynccontextmanager
    async def stream_generation(self, job: GenerationRequest) -> AsyncIterator[TextStream[GenerationResult]]:
        async with _counted_stream(job.n, self._engine.stream_generation(job)) as stream:
            yield stream


@contextmanager
def _counted_work() -> Iterator[RequestWork]:
    work = CURRENT_WORK.get() or RequestWork()  # outside a request there is nothing to record
    try:
        yield work
    except Exception as error:
        work.failed = _error_code(error)
        raise


@asynccontextmanager
async def _counted_stream(
    sequences: int, opened: AbstractAsyncContextManager[TextStream[R]]
) -> AsyncIterator[TextStream[R]]:
    with _counted_work() as work:
        async with opened as stream:
            yield stream
            if not stream.ended:
                return
            try:  # an error that ended a stream late has reached its reader, and is not raised a second time
                result = stream.result
            except Exception as error:
                work.failed, work.broken = _error_code(error), True
            else:
                work.add(result.model, sequences, [result.usage])


def _error_code(error: Exception) -> str:
    return str(getattr(error, "code", type(error).__name__))
