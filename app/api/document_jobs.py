"""Documents that are translated in the background, and the limit of documents at work at once."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from starlette.concurrency import run_in_threadpool

from app.api.errors import INTERNAL_ERROR_MESSAGE
from app.engine.metrics.request_work import CURRENT_WORK
from app.errors import EngineError, Overloaded
from app.storage.translated_file_store import TranslatedFileStore

logger = logging.getLogger(__name__)

CONCURRENT_DOCUMENTS = 4  # each translates a few dozen sentences at a time
MAX_PENDING_DOCUMENTS = 64
_RETRY_AFTER_S = 10
T = TypeVar("T")
State = Literal["queued", "translating", "done", "error"]
Work = Callable[[], Awaitable[tuple[bytes, int]]]  # returns the translated file and its characters


@dataclass(slots=True)
class DocumentJob:
    """key: the secret that opens the document. name: of the stored file, once it is done. filename:
    under which a client saves it."""

    id: str
    key: str
    extension: str
    state: State = "queued"
    characters: int = 0
    message: str = ""
    name: str = ""
    filename: str = ""
    ended_s: float | None = None


@dataclass(slots=True)
class DocumentJobs:
    """Jobs are kept in memory; a finished one as long as its file."""

    files: TranslatedFileStore
    _jobs: dict[str, DocumentJob] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENT_DOCUMENTS))

    def start(self, extension: str, work: Work) -> DocumentJob:
        """Raises `Overloaded` while too many are pending."""
        self._forget()
        if len(self._tasks) >= MAX_PENDING_DOCUMENTS:
            raise Overloaded(
                f"{MAX_PENDING_DOCUMENTS} documents are waiting or in work; try again in {_RETRY_AFTER_S} seconds.",
                retry_after_s=_RETRY_AFTER_S,
            )
        job = DocumentJob(secrets.token_hex(16).upper(), secrets.token_hex(32).upper(), extension)
        self._jobs[job.id] = job
        task = asyncio.create_task(self._run(job, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def in_turn(self, work: Awaitable[T]) -> T:
        """The result of `work`, for a client that waits; it counts as one of the documents at work."""
        async with self._room:
            return await work

    def find(self, document_id: str, key: str) -> DocumentJob | None:
        """None for an unknown document or a wrong key."""
        self._forget()
        job = self._jobs.get(document_id)
        return job if job and secrets.compare_digest(job.key.encode(), key.encode("utf-8", "replace")) else None

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, job: DocumentJob, work: Work) -> None:
        CURRENT_WORK.set(None)  # the request is answered already: this work is not counted as its own
        try:
            async with self._room:
                job.state = "translating"
                content, job.characters = await work()
                job.name = await run_in_threadpool(self.files.keep, job.extension, content)
                job.state = "done"
        except EngineError as error:
            job.state, job.message = "error", error.message
        except asyncio.CancelledError:
            job.state, job.message = "error", "The server was stopped before the document was translated."
            raise
        except Exception:
            logger.exception("document %s failed", job.id)
            job.state, job.message = "error", INTERNAL_ERROR_MESSAGE.replace("request_id", "document_id")
        finally:
            job.ended_s = time.monotonic()

    def _forget(self) -> None:
        oldest_s = time.monotonic() - self.files.retention_s
        self._jobs = {job.id: job for job in self._jobs.values() if job.ended_s is None or job.ended_s >= oldest_s}
