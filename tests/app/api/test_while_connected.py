"""Work that runs in its caller's task, and ends when the client leaves or the caller is cancelled."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
from fastapi import Request
from starlette.types import Message

from app.api.request_body import ClientDisconnected, while_connected
from app.engine.admission import ORIGIN
from app.errors import EngineFailed


def request(leaves: asyncio.Event, left: list[str]) -> Request:
    """A request whose client disconnects at `leaves`; `left` records the end of the watch for it."""

    async def receive() -> Message:
        try:
            await leaves.wait()
        except asyncio.CancelledError:
            left.append("nobody looks out any more")
            raise
        return {"type": "http.disconnect"}

    return Request({"type": "http"}, receive)


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


def test_result_ends_the_watch_for_disconnects() -> None:
    async def run() -> list[str]:
        left: list[str] = []
        assert await while_connected(request(asyncio.Event(), left), answer(3)) == 3
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        return left

    assert asyncio.run(run()) == ["nobody looks out any more"]


def test_an_error_of_the_work_is_its_own() -> None:
    async def fail() -> None:
        raise EngineFailed("It broke.")

    async def run() -> None:
        await while_connected(request(asyncio.Event(), []), fail())

    with pytest.raises(EngineFailed, match="It broke"):
        asyncio.run(run())


def test_disconnect_leaves_no_cancellation_behind() -> None:
    async def run() -> str:
        leaves = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, leaves.set)
        with pytest.raises(ClientDisconnected):
            await while_connected(request(leaves, []), asyncio.sleep(60))
        await asyncio.sleep(0)  # no cancellation is left over for it
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return "went on"

    assert asyncio.run(run()) == "went on"


def test_timeout_of_the_work_is_not_a_disconnect() -> None:
    async def work() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    async def run() -> None:
        await while_connected(request(asyncio.Event(), []), work())

    with pytest.raises(TimeoutError):
        asyncio.run(run())


def test_a_cancelled_caller_is_cancelled_also_if_the_client_leaves_too() -> None:
    async def run() -> bool:
        leaves = asyncio.Event()
        caller = asyncio.create_task(while_connected(request(leaves, []), asyncio.sleep(60)))
        await asyncio.sleep(0.01)
        caller.cancel()
        leaves.set()
        await asyncio.wait([caller])
        return caller.cancelled()

    assert asyncio.run(run())


def test_an_answer_and_a_leaving_in_one_turn_come_to_either_and_leave_no_cancellation_over() -> None:
    async def run() -> int:
        leaves, result = asyncio.Event(), asyncio.get_running_loop().create_future()

        async def work() -> int:
            return await asyncio.shield(result)

        asyncio.get_running_loop().call_later(0.01, lambda: (result.set_result(5), leaves.set()))
        try:
            return await while_connected(request(leaves, []), work())
        except ClientDisconnected:
            return -1
        finally:
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0

    assert asyncio.run(run()) in (5, -1)


def test_engine_knows_the_deadline_of_the_whole_request() -> None:
    async def deadline() -> float:
        return await asyncio.create_task(inner())

    async def inner() -> float:
        return ORIGIN.get().deadline

    async def scene() -> None:
        began = time.monotonic()
        limited = await while_connected(request(asyncio.Event(), []), deadline(), 60)
        assert 60 <= limited - began <= 60 + time.monotonic() - began
        assert await while_connected(request(asyncio.Event(), []), deadline()) == math.inf

    asyncio.run(scene())
