"""What the engine did for one HTTP request, summed over its translations and generations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from app.engine.interface import (
    Engine,
    GenerationRequest,
    GenerationResult,
    TranslationRequest,
    TranslationResult,
    Usage,
)
from app.engine.output.text_stream import TextStream


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
        for each in usages:
            self.read_tokens += each.read_tokens
            self.new_tokens += each.new_tokens
            self.queued_s = _longer_time(self.queued_s, each.queued_s)
            self.first_token_s = _longer_time(self.first_token_s, each.first_token_s)
        self.total_s = (self.total_s or 0.0) + max(each.total_s for each in usages)


def _longer_time(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


CURRENT_WORK: ContextVar[RequestWork | None] = ContextVar(
    "work", default=None
)  # of the request in whose task this is read


class CountingEngine:
    """Translations and generations are added to the request's `Work`; everything else is the engine's own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def translate(self, jobs: Sequence[TranslationRequest]) -> list[TranslationResult]:
        with _counted_work() as work:
            found = await self._engine.translate(jobs)
            if found:
                work.add(found[0].model, len(jobs), [each.usage for each in found])
            return found

    async def generate(self, job: GenerationRequest) -> GenerationResult:
        with _counted_work() as work:
            found = await self._engine.generate(job)
            work.add(found.model, job.n, [found.usage])
            return found

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
    work = CURRENT_WORK.get() or RequestWork()  # nobody asks for that of no request
    try:
        yield work
    except Exception as error:
        work.failed = _error_code(error)
        raise


@asynccontextmanager
async def _counted_stream(sequences: int, opened: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
    with _counted_work() as work:
        async with opened as stream:
            yield stream
            if not stream.ended:
                return
            try:  # what ended a stream late was told to its reader, and is not raised a second time
                found = stream.result
            except Exception as error:
                work.failed, work.broken = _error_code(error), True
            else:
                work.add(found.model, sequences, [found.usage])


def _error_code(error: Exception) -> str:
    return str(getattr(error, "code", type(error).__name__))
