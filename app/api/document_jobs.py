"""Documents that are translated in the background, and the limit of documents at work at once."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool

from app.api.errors import INTERNAL_ERROR_MESSAGE
from app.documents.reader_pool import ReaderPool
from app.engine.admission import ORIGIN
from app.engine.metrics import CURRENT_WORK
from app.errors import EngineError, Overloaded
from app.storage.document_job_store import BEAT_S, DocumentJob, DocumentJobStore
from app.storage.translated_file_store import TranslatedFileStore

logger = logging.getLogger(__name__)

CONCURRENT_DOCUMENTS = 4  # each translates a few dozen sentences at a time
MAX_PENDING_DOCUMENTS = 64
_MAX_SHARE = 2  # one client may have half of them
_RETRY_AFTER_S = 10
T = TypeVar("T")
Work = Callable[[], Awaitable[tuple[bytes, int]]]  # returns the translated file and its characters


class DocumentRoom:
    """Places for the documents at work, each of which may take hours. One client alone gets all but one of them, so
    that the next finds a place; clients that wait take turns, however many documents each has."""

    def __init__(self, places: int = CONCURRENT_DOCUMENTS) -> None:
        self._places = places
        self._at_work = Counter[str]()
        # client -> its waiting documents; the first client is served next
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        client = ORIGIN.get().client
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        self._fill()
        try:
            await turn
        except BaseException:
            if turn.cancelled():
                self._forget(client, turn)
            else:  # it came as the waiting was cancelled
                self._leave(client)
            raise
        try:
            yield
        finally:
            self._leave(client)

    def _fill(self) -> None:
        while self._at_work.total() < self._places:
            most = max(1, self._places - 1)
            client = next((client for client in self._waiting if self._at_work[client] < most), None)
            if client is None:
                return
            turns = self._waiting.pop(client)
            turn = turns.popleft()
            if turns:
                self._waiting[client] = turns  # after the others
            if not turn.cancelled():
                self._at_work[client] += 1
                turn.set_result(None)

    def _leave(self, client: str) -> None:
        self._at_work[client] -= 1
        if not self._at_work[client]:
            del self._at_work[client]
        self._fill()

    def _forget(self, client: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client, deque())
        with suppress(ValueError):
            turns.remove(turn)
        if not turns:
            self._waiting.pop(client, None)


@dataclass(slots=True)
class DocumentJobs:
    """The documents that this process translates; the store has the documents of all processes."""

    files: TranslatedFileStore
    store: DocumentJobStore
    readers: ReaderPool = field(default_factory=ReaderPool)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _room: DocumentRoom = field(default_factory=DocumentRoom)
    _pending: Counter[str] = field(default_factory=Counter)  # by client; also of documents that get their record now

    async def start(
        self,
        extension: str,
        filename: str,
        work: Work,
        on_end: Callable[[], None] = lambda: None,
        progress: Callable[[], float] = lambda: 0.0,
    ) -> tuple[DocumentJob, str]:
        """The job and the key that opens it. Raises `Overloaded` while too many are pending. on_end: called once, also
        where this raises. progress: the share of the work that is done."""
        client = ORIGIN.get().client
        try:
            self._check_pending(client)
        except Overloaded:
            on_end()
            raise
        self._pending[client] += 1  # before anything is awaited: other requests come meanwhile

        def ended(_: object = None) -> None:
            self._pending[client] -= 1
            if not self._pending[client]:
                del self._pending[client]
            on_end()

        try:
            job, key = await run_in_threadpool(self.store.add, extension, filename)
        except BaseException:
            ended()
            raise
        task = asyncio.create_task(self._run(job, work, progress))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(ended)
        return job, key

    def _check_pending(self, client: str) -> None:
        share = MAX_PENDING_DOCUMENTS // _MAX_SHARE
        if self._pending.total() >= MAX_PENDING_DOCUMENTS:
            waiting = f"{MAX_PENDING_DOCUMENTS} documents"
        elif client and self._pending[client] >= share:
            waiting = f"{share} of your documents"
        else:
            return
        sentence = f"{waiting} are waiting or in work; try again in {_RETRY_AFTER_S} seconds."
        raise Overloaded(sentence, retry_after_s=_RETRY_AFTER_S, reason="overloaded_documents")

    async def in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, for a client that waits; it counts as one of the documents at work."""
        async with self._room.place():
            return await work()

    async def find(self, document_id: str, key: str) -> DocumentJob | None:
        """None for an unknown document or a wrong key."""
        return await run_in_threadpool(self.store.find, document_id, key)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.readers.close()

    async def _run(self, job: DocumentJob, work: Work, progress: Callable[[], float]) -> None:
        CURRENT_WORK.set(None)  # the request is answered already: this work is not counted as its own
        began = math.nan

        def seconds_remaining() -> int | None:
            """As long as the work has taken until now where nothing is done yet."""
            took_s, done = time.monotonic() - began, progress()
            return None if math.isnan(took_s) else max(1, math.ceil(took_s * (1 - done) / done if done else took_s))

        beating = asyncio.create_task(self._beat(job.id, seconds_remaining))
        try:
            async with self._room.place():
                began = time.monotonic()
                job = msgspec.structs.replace(job, state="translating", seconds_remaining=seconds_remaining())
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

    async def _beat(self, document_id: str, seconds_remaining: Callable[[], int | None]) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await run_in_threadpool(self.store.beat, document_id, seconds_remaining())
