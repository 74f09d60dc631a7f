"""A client that leaves takes its work with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message

from app.engine.interface import TranslationRequest, TranslationResult
from tests.app.api.disconnecting import posted
from tests.app.api.fake_engine import FakeEngine


class Slow(FakeEngine):
    """Never answers; signals the arrival and the cancellation of its request."""

    def __init__(self) -> None:
        super().__init__()
        self.request_started = asyncio.Event()
        self.cancelled = False

    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        await self._never()
        return []

    async def _never(self) -> None:
        self.request_started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


BODY: Message = {
    "type": "http.request",
    "body": b'{"q": "hallo", "source": "de", "target": "en"}',
    "more_body": False,
}


async def leave_midway(engine: Slow, *first: Message) -> list[Message]:
    """Leave after these messages."""
    coming = list(first)
    sent: list[Message] = []

    async def receive() -> Message:
        if coming:
            return coming.pop(0)
        if first == (BODY,):
            await engine.request_started.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await posted("/translate", engine, receive, send)
    return sent


def test_disconnect_cancels_the_job() -> None:
    async def run() -> tuple[Slow, list[Message]]:
        engine = Slow()
        return engine, await leave_midway(engine, BODY)

    engine, sent = asyncio.run(run())
    assert engine.cancelled
    assert sent[0]["status"] == 499


def test_disconnect_within_the_body_is_no_server_error(caplog: pytest.LogCaptureFixture) -> None:
    engine = Slow()
    sent = asyncio.run(leave_midway(engine, {"type": "http.request", "body": b'{"q', "more_body": True}))
    assert sent[0]["status"] == 499
    assert not engine.request_started.is_set()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
