"""Completions whose reader disconnects or stalls: their engine work is cancelled."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message

from app.engine.interface import GenerationRequest, GenerationResult
from tests.app.api.disconnecting import posted
from tests.app.api.fake_engine import FakeEngine

PROMPTS = {"prompt": ["分", "开"], "n": 2}


class Endless(FakeEngine):
    """Generates without end; counts cancelled requests."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = 0

    async def _spell(self, show: Any, texts: list[str]) -> None:
        await self._cancelled(lambda: show("x", 0))

    async def _cancelled(self, write: Any) -> None:
        try:
            while True:
                write()
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class Silent(Endless):
    async def generate(self, request: GenerationRequest) -> GenerationResult:
        await self._cancelled(lambda: None)
        return await super().generate(request)


async def complete(engine: FakeEngine, body: dict[str, Any], send: Any, left: asyncio.Event, **settings: Any) -> None:
    first: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Message:
        if first:
            return first.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    await posted("/v1/completions", engine, receive, send, **settings)


@pytest.mark.parametrize(("takes", "settings"), [(True, {}), (False, {"request_timeout_s": 0.05})])
def test_disconnected_or_stalled_reader(takes: bool, settings: dict[str, Any]) -> None:
    async def scene() -> None:
        engine, sent, left = Endless(), list[Message](), asyncio.Event()

        async def send(message: Message) -> None:
            if not takes and sent and sent[-1].get("body"):
                await asyncio.Event().wait()  # as a server does while the client's buffers are full
            sent.append(message)
            if takes and len(sent) > 5:
                left.set()

        await complete(engine, {**PROMPTS, "stream": True}, send, left, **settings)
        assert engine.cancelled == 2
        assert sent[0]["status"] == 200
        assert all(message["more_body"] for message in sent[1:])

    asyncio.run(scene())


def test_disconnect_before_a_complete_answer() -> None:
    async def scene() -> None:
        engine, sent, left = Silent(), list[Message](), asyncio.Event()

        async def send(message: Message) -> None:
            sent.append(message)

        asyncio.get_running_loop().call_later(0.05, left.set)
        await complete(engine, PROMPTS, send, left)
        assert (engine.cancelled, sent[0]["status"]) == (2, 499)

    asyncio.run(scene())
