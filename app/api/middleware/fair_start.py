"""Starts a few POST requests per event-loop iteration, so that finished answers are written first.

An event loop runs every ready callback before it polls its sockets again. When 300 requests arrive at once, all of
them would be parsed, checked and tokenized before the results of running requests are even read."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

STARTS_PER_ITERATION = 4


class FairStart:
    """Pure ASGI, the outermost. Of the requests that bring work (POST) so many begin in one round of the event loop, in
    order of arrival; between two rounds what the devices say is heard."""

    def __init__(self, app: ASGIApp, *, at_once: int = STARTS_PER_ITERATION) -> None:
        self.app, self.at_once = app, at_once
        self._begun = 0  # in this round
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            await self._turn()
        await self.app(scope, receive, send)

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        if self._begun < self.at_once and not self._waiting:
            self._begun += 1
            if self._begun == 1:
                loop.call_soon(self._next_round, loop)
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < self.at_once:
            turn = self._waiting.popleft()
            if not turn.done():  # nobody has given it up
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            loop.call_soon(self._next_round, loop)
