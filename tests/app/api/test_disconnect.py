"""A client that leaves takes its work with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.types import Message

from app.engine.jobs import Translation, TranslationJob
from app.main import create_app
from app.settings import Settings
from tests.app.api.fake_engine import FakeEngine


class Slow(FakeEngine):
    """Never answers; says when it was asked and when it was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.cancelled = False

    async def translate(self, jobs: Sequence[TranslationJob]) -> list[Translation]:
        await self._never()
        return []

    async def _never(self) -> None:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def leave_midway(engine: Slow) -> list[Message]:
    body = b'{"q": "hallo", "source": "de", "target": "en"}'
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if first:
            return first.pop()
        await engine.asked.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/translate",
        "raw_path": b"/translate",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "root_path": "",
        "scheme": "http",
        "server": ("parlance", 80),
    }
    async with asyncio.timeout(5):
        await create_app(Settings(), engine)(scope, receive, send)
    return sent


def test_its_job_is_cancelled() -> None:
    async def run() -> tuple[Slow, list[Message]]:
        engine = Slow()
        return engine, await leave_midway(engine)

    engine, sent = asyncio.run(run())
    assert engine.cancelled
    assert sent[0]["status"] == 499
