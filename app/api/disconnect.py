"""When the client goes away, its work stops: no slot decodes for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

T = TypeVar("T")


class ClientLeft(HTTPException):
    """The client closed the connection before the answer was there."""

    def __init__(self) -> None:
        super().__init__(499, "The client closed the connection before the answer was there.")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as the client of `request` has disconnected.

    `work` runs in the caller's own task, so that its result is there in the same turn of the loop: it is this task that
    the watcher cancels, as `asyncio.timeout` does it.
    """
    working = asyncio.current_task()
    assert working is not None
    cancellations, left = working.cancelling(), False

    def leave(watch: asyncio.Task[None]) -> None:
        nonlocal left
        if not (watch.cancelled() or watch.exception() or over):
            left = True
            working.cancel()

    over = False
    watching = asyncio.create_task(_left(request))
    watching.add_done_callback(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if left and working.uncancel() <= cancellations:
            raise ClientLeft from None
        raise
    finally:
        over = True
        watching.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
