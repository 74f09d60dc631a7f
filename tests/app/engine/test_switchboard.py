"""Waiters without any device process: what is sent is kept, what comes back is made up."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from app.engine import errors
from app.engine import messages as m
from app.engine.devices import Devices
from app.engine.metrics import Metrics
from app.engine.stopping import StopWatch
from app.engine.switchboard import Switchboard


class FakeDevice:
    """A device that is its own process and its own `Devices`."""

    def __init__(self) -> None:
        self.name, self.outstanding_tokens, self.process = "cpu", 0, self
        self.sent: list[Any] = []

    def least_busy(self, model: str) -> FakeDevice:
        return self

    def send(self, messages: list[Any]) -> None:
        self.sent += messages


class Watch:
    """Takes no token."""

    def feed(self, token: int) -> str | None:
        raise IndexError(f"There is no token {token}.")


def a_switchboard() -> tuple[Switchboard, FakeDevice]:
    device = FakeDevice()
    return Switchboard(cast(Devices, device), 5.0, Metrics()), device


def ask(board: Switchboard, watch: object = None) -> asyncio.Task[Any]:
    work = board.ask("a", 3, lambda request, deadline: ("ask", request), cast(StopWatch | None, watch))
    return asyncio.create_task(work)


def test_a_token_that_its_listener_cannot_take_fails_that_request_alone() -> None:
    async def scene() -> None:
        board, device = a_switchboard()
        bad, good = ask(board, Watch()), ask(board)
        await asyncio.sleep(0)
        board.reply(m.Tokens([(1, 99), (2, 99)]))
        board.reply(m.Finished(2, []))
        with pytest.raises(errors.EngineFailed, match="There is no token 99"):
            await bad
        assert await good == m.Finished(2, [])
        assert m.Cancel(1) in device.sent  # nobody listens any more
        assert (device.outstanding_tokens, board._waiters) == (0, {})

    asyncio.run(scene())


def test_replies_to_those_who_left_are_dropped() -> None:
    async def scene() -> None:
        board, device = a_switchboard()
        asked = ask(board)
        await asyncio.sleep(0)
        asked.cancel()
        board.reply(m.Finished(1, []))  # crosses with the cancellation
        with pytest.raises(asyncio.CancelledError):
            await asked
        for late in (m.Finished(1, []), m.Failed(1, "engine_failed", "late"), m.Tokens([(1, 5)])):
            board.reply(late)
        assert device.sent == [("ask", 1), m.Cancel(1)]
        assert device.outstanding_tokens == 0

    asyncio.run(scene())


def test_draining_waits_for_a_question_that_follows_from_an_answer() -> None:
    async def scene() -> None:
        board, _ = a_switchboard()

        async def twice() -> list[Any]:
            return [await ask(board), await board.ask("a", 3, lambda request, deadline: ("ask", request))]

        asked = asyncio.create_task(twice())
        await asyncio.sleep(0.01)
        draining = asyncio.create_task(board.drain(5.0))
        await asyncio.sleep(0.01)
        board.reply(m.Finished(1, []))
        await asyncio.sleep(0.01)
        board.reply(m.Finished(2, []))
        await draining
        assert await asked == [m.Finished(1, []), m.Finished(2, [])]

    asyncio.run(scene())


def test_draining_ends_and_tells_the_rest_to_try_again() -> None:
    async def scene() -> None:
        board, _ = a_switchboard()
        asked = ask(board)
        await asyncio.sleep(0)
        await board.drain(0.01)
        with pytest.raises(errors.EngineUnavailable, match="shutting down"):
            await asked

    asyncio.run(scene())
