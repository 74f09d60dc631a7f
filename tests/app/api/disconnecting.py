"""A request without a client: its messages come from the test, and so does when it is left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message

from app.main import create_app
from app.settings import Settings
from tests.app.api.fake_engine import FakeEngine


async def posted(
    path: str,
    engine: FakeEngine,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
    **settings: Any,
) -> None:
    """To its end, for five seconds at most."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "root_path": "",
        "scheme": "http",
        "server": ("parlance", 80),
    }
    async with asyncio.timeout(5):
        await create_app(Settings(**settings), engine)(scope, receive, send)
