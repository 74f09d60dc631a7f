"""An engine that counts, for whoever reports on a request, what it did for that request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

from app.engine.jobs import Engine, Generation, GenerationJob, Translation, TranslationJob
from app.engine.streaming import TextStream
from app.engine.work import CURRENT, Work


class CountingEngine:
    """Translations and generations are added to the request's `Work`; everything else is the engine's own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def translate(self, jobs: Sequence[TranslationJob]) -> list[Translation]:
        with _counted() as work:
            found = await self._engine.translate(jobs)
            if found:
                work.add(found[0].model, len(jobs), [each.usage for each in found])
            return found

    async def generate(self, job: GenerationJob) -> Generation:
        with _counted() as work:
            found = await self._engine.generate(job)
            work.add(found.model, job.n, [found.usage])
            return found

    @asynccontextmanager
    async def stream_translation(self, job: TranslationJob) -> AsyncIterator[TextStream[Translation]]:
        async with _streamed(1, self._engine.stream_translation(job)) as stream:
            yield stream

    @asynccontextmanager
    async def stream_generation(self, job: GenerationJob) -> AsyncIterator[TextStream[Generation]]:
        async with _streamed(job.n, self._engine.stream_generation(job)) as stream:
            yield stream


@contextmanager
def _counted() -> Iterator[Work]:
    work = CURRENT.get() or Work()  # nobody asks for that of no request
    try:
        yield work
    except Exception as error:
        work.failed = _name(error)
        raise


@asynccontextmanager
async def _streamed(sequences: int, opened: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
    with _counted() as work:
        async with opened as stream:
            yield stream
            if not stream.ended:
                return
            try:  # what ended a stream late was told to its reader, and is not raised a second time
                found = stream.result
            except Exception as error:
                work.failed, work.broken = _name(error), True
            else:
                work.add(found.model, sequences, [found.usage])


def _name(error: Exception) -> str:
    return str(getattr(error, "code", type(error).__name__))
