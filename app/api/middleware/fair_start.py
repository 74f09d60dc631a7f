"""Starts a few POST requests per event-loop iteration, so that finished answers are written first. An event loop runs
every ready callback before it polls its sockets again. When 300 requests arrive at once, all of them would be parsed,
checked and tokenized before the results of running requests are even read."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

STARTS_PER_ITERATION = 4


class FairStart:
    """Pure ASGI. At most `at_once` POST requests start in one iteration of the event loop, in order of arrival."""

    def __init__(self, app: ASGIApp, *, at_once: int = STARTS_PER_ITERATION) -> None:
        self.app, self.at_once = app, at_once
        self._started = 0  # in this iteration
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            loop = asyncio.get_running_loop()
            if self._started < self.at_once and not self._waiting:
                self._started += 1
                if self._started == 1:
                    loop.call_soon(self._next_iteration, loop)
            else:
                turn = loop.create_future()
                self._waiting.append(turn)
                await turn
        await self.app(scope, receive, send)

    def _next_iteration(self, loop: asyncio.AbstractEventLoop) -> None:
        self._started = 0
        while self._waiting and self._started < self.at_once:
            turn = self._waiting.popleft()
            if not turn.done():  # its request was not cancelled
                turn.set_result(None)
                self._started += 1
        if self._started:
            loop.call_soon(self._next_iteration, loop)
