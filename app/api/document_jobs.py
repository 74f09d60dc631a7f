"""Documents that are translated in the background, and the limit of documents at work at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool

from app.api.errors import INTERNAL_ERROR_MESSAGE
from app.documents.reader_pool import ReaderPool
from app.engine.metrics.request_work import CURRENT_WORK
from app.errors import EngineError, Overloaded
from app.storage.document_job_store import BEAT_S, DocumentJob, DocumentJobStore
from app.storage.translated_file_store import TranslatedFileStore

logger = logging.getLogger(__name__)

CONCURRENT_DOCUMENTS = 4  # each translates a few dozen sentences at a time
MAX_PENDING_DOCUMENTS = 64
_RETRY_AFTER_S = 10
T = TypeVar("T")
Work = Callable[[], Awaitable[tuple[bytes, int]]]  # returns the translated file and its characters


@dataclass(slots=True)
class DocumentJobs:
    """The documents that this process translates; the store knows those of all processes."""

    files: TranslatedFileStore
    store: DocumentJobStore
    readers: ReaderPool = field(default_factory=ReaderPool)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENT_DOCUMENTS))

    async def start(self, extension: str, filename: str, work: Work) -> tuple[DocumentJob, str]:
        """The job and the key that opens it. Raises `Overloaded` while too many are pending."""
        if len(self._tasks) >= MAX_PENDING_DOCUMENTS:
            raise Overloaded(
                f"{MAX_PENDING_DOCUMENTS} documents are waiting or in work; try again in {_RETRY_AFTER_S} seconds.",
                retry_after_s=_RETRY_AFTER_S,
            )
        job, key = await run_in_threadpool(self.store.add, extension, filename)
        task = asyncio.create_task(self._run(job, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job, key

    async def in_turn(self, work: Awaitable[T]) -> T:
        """The result of `work`, for a client that waits; it counts as one of the documents at work."""
        async with self._room:
            return await work

    async def find(self, document_id: str, key: str) -> DocumentJob | None:
        """None for an unknown document or a wrong key."""
        return await run_in_threadpool(self.store.find, document_id, key)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.readers.close()

    async def _run(self, job: DocumentJob, work: Work) -> None:
        CURRENT_WORK.set(None)  # the request is answered already: this work is not counted as its own
        beating = asyncio.create_task(self._beat(job.id))
        try:
            async with self._room:
                job = msgspec.structs.replace(job, state="translating")
                await run_in_threadpool(self.store.save, job)
                content, characters = await work()
                name = await run_in_threadpool(self.files.keep, job.extension, content)
                job = msgspec.structs.replace(job, state="done", characters=characters, name=name)
        except EngineError as error:
            job = msgspec.structs.replace(job, state="error", message=error.message)
        except asyncio.CancelledError:
            message = "The server was stopped before the document was translated."
            job = msgspec.structs.replace(job, state="error", message=message)
            raise
        except Exception:
            logger.exception("document %s failed", job.id)
            message = INTERNAL_ERROR_MESSAGE.replace("request_id", "document_id")
            job = msgspec.structs.replace(job, state="error", message=message)
        finally:
            beating.cancel()
            try:
                self.store.save(job)  # at once and in this thread: a cancelled task waits for nothing, and it is small
            except EngineError as error:
                logger.error("the state of document %s is lost: %s", job.id, error.message)

    async def _beat(self, document_id: str) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await run_in_threadpool(self.store.beat, document_id)
