"""Documents at work and those that wait: their number, their memory, and the turns of several clients."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.api.document_jobs import CONCURRENT_DOCUMENTS, MAX_PENDING_DOCUMENTS, DocumentJobs
from app.engine.admission import ORIGIN, RequestOrigin
from app.errors import Overloaded
from app.storage.document_job_store import DocumentJob, DocumentJobStore
from app.storage.translated_file_store import TranslatedFileStore
from tests.app.socket_server import SocketServer, answers, serving_sockets
from tests.app.test_connection_limits import Stopped

HALF = MAX_PENDING_DOCUMENTS // 2


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[DocumentJobs]:
    jobs = DocumentJobs(TranslatedFileStore(folder, 100, 10**9), DocumentJobStore(folder, 100))
    try:
        yield jobs
    finally:
        await jobs.close()


async def never() -> tuple[bytes, int]:
    await asyncio.Event().wait()
    raise AssertionError


def of_client(client: str, work: Callable[[], Awaitable[object]]) -> asyncio.Task[object]:
    async def run() -> object:
        ORIGIN.set(RequestOrigin(client))
        return await work()

    return asyncio.create_task(run())


def test_documents_that_come_at_once_are_limited_as_those_that_come_one_by_one(tmp_path: Path) -> None:
    """All of 300 were taken: each was counted only after its record was written."""

    async def session() -> None:
        async with running(tmp_path) as jobs:

            async def send() -> tuple[DocumentJob, str]:
                return await jobs.start(".txt", "a.txt", never)

            whose = iter((f"{HALF} of your documents", *[f"{MAX_PENDING_DOCUMENTS} documents"] * 2))
            for client, taken in ("one", HALF), ("two", HALF), ("three", 0):
                tasks = [of_client(client, send) for _ in range(MAX_PENDING_DOCUMENTS)]
                results = await asyncio.gather(*tasks, return_exceptions=True)
                refusals = [result for result in results if isinstance(result, Overloaded)]
                assert len(results) - len(refusals) == taken
                assert {refusal.reason for refusal in refusals} == {"overloaded_documents"}
                assert refusals[0].message == f"{next(whose)} are waiting or in work; try again in 10 seconds."

    asyncio.run(session())


def test_a_refused_document_that_could_not_be_stored_holds_no_place(tmp_path: Path) -> None:
    async def session() -> None:
        ended = 0

        def end() -> None:
            nonlocal ended
            ended += 1

        async with running(tmp_path) as jobs:
            (tmp_path / "documents").write_text("no folder")
            for _ in range(MAX_PENDING_DOCUMENTS + 1):
                with pytest.raises(Exception, match="cannot write to its folder"):
                    await jobs.start(".txt", "a.txt", never, end)
        assert ended == MAX_PENDING_DOCUMENTS + 1

    asyncio.run(session())


def test_a_client_with_many_documents_leaves_a_place_and_turns_to_others(tmp_path: Path) -> None:
    async def session() -> None:
        began: list[str] = []
        may_end = {client: asyncio.Event() for client in "abc"}

        async def work(client: str) -> None:
            began.append(client)
            await may_end[client].wait()

        async with running(tmp_path) as jobs:

            def send(client: str) -> asyncio.Task[object]:
                return of_client(client, lambda: jobs.in_turn(lambda: work(client)))

            many = [send("a") for _ in range(20)]
            await asyncio.sleep(0.01)
            assert began == ["a"] * (CONCURRENT_DOCUMENTS - 1)
            others = [send("b"), send("b"), send("c")]
            await asyncio.sleep(0.01)
            assert began[CONCURRENT_DOCUMENTS - 1 :] == ["b"]
            may_end["b"].set()
            may_end["c"].set()
            await asyncio.gather(*others)
            assert sorted(began) == [*["a"] * (CONCURRENT_DOCUMENTS - 1), "b", "b", "c"]
            may_end["a"].set()
            await asyncio.gather(*many)
            assert began.count("a") == 20

    asyncio.run(session())


def test_clients_that_leave_while_they_wait_or_work_give_their_places_back(tmp_path: Path) -> None:
    """A client that left before its turn also left a warning of a coroutine that nobody had awaited."""

    async def session() -> None:
        began = 0

        async def work() -> None:
            nonlocal began
            began += 1
            await asyncio.Event().wait()

        async with running(tmp_path) as jobs:
            for _ in range(3):
                tasks = [of_client("a", lambda: jobs.in_turn(work)) for _ in range(6)]
                await asyncio.sleep(0.01)
                for task in tasks[1:2] + tasks:  # one first, in whose place another begins as it is cancelled
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            assert began == 3 * (CONCURRENT_DOCUMENTS - 1)

            async def short() -> str:
                return "done"

            assert await jobs.in_turn(short) == "done"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(session())
        gc.collect()


def upload(server: SocketServer, size: int) -> int:
    part = b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    fields = ((b"source_lang", b"", b"DE"), (b"target_lang", b"", b"EN-GB"))
    parts = [part % field for field in (*fields, (b"file", b'; filename="a.txt"', b"wort " * (size // 5)))]
    body = b"".join([*parts, b"--b--\r\n"])
    head = b"POST /v2/document HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n" % len(body)
    form = b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    ((status, *_),) = answers(server.exchange(head + form + body))
    return status


def test_documents_that_wait_hold_the_room_of_their_uploads(tmp_path: Path) -> None:
    """64 of them, of 10 MB each, took 640 MB where 256 MB were the limit: their requests had been answered."""
    engine = Stopped()
    limits = {"max_file_bytes": 400_000, "max_body_bytes": 400_000, "max_uploaded_bytes": 400_000}
    with serving_sockets(engine, data=str(tmp_path), **limits) as server:
        assert [upload(server, 250_000) for _ in range(2)] == [200, 429]
        assert server.refused("overloaded_uploads") == 1
        engine.may.set()
        end = time.monotonic() + 60
        while (status := upload(server, 250_000)) == 429 and time.monotonic() < end:
            time.sleep(0.05)
        assert status == 200
