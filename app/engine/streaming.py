"""Texts on their way to a reader while they are written. What waits for a slow reader is one text, never a queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Show = Callable[[str, int], None]
"""Takes the next text of continuation number i."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What was added to continuation `index`."""

    text: str
    index: int = 0


class TextStream(Generic[T]):
    """One request that is answered bit by bit. The writer never waits for the reader: texts that were not taken yet
    are merged, so they hold at most the whole answer."""

    def __init__(self, work: Callable[[Show], Coroutine[Any, Any, T]]) -> None:
        self._pending: dict[int, str] = {}
        self._shown: set[int] = set()
        self._news, self._hurry = asyncio.Event(), asyncio.Event()
        self._work = asyncio.create_task(work(self._put))
        self._work.add_done_callback(lambda _: self._wake())

    @classmethod
    @asynccontextmanager
    async def opened(cls, work: Callable[[Show], Coroutine[Any, Any, T]]) -> AsyncIterator[TextStream[T]]:
        """Opens with the first text, or with an end without any. What goes wrong before is raised here, so that it
        can still be answered as if nothing had been streamed. Leaving the context cancels the work."""
        stream = cls(work)
        try:
            await stream._news.wait()
            if stream._work.done() and not stream._pending:
                stream._work.result()
            yield stream
        finally:
            stream._work.cancel()
            await asyncio.wait([stream._work])
            stream._work.cancelled() or stream._work.exception()  # a reader that has left is told nothing

    async def deltas(self, interval_s: float = 0.0) -> AsyncIterator[TextDelta]:
        """The first text of each continuation and the last come at once; what comes between is merged, so that
        `interval_s` lies between two rounds. Raises what ended the work, after the texts before it."""
        while True:
            await self._news.wait()
            self._news.clear()
            self._hurry.clear()
            ended = self._work.done()  # looked up before the texts are taken: afterwards none is added
            taken, self._pending = self._pending, {}
            for index, text in taken.items():
                yield TextDelta(text, index)
            if ended:
                self._work.result()
                return
            if interval_s and not self._work.done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval_s):
                        await self._hurry.wait()

    @property
    def result(self) -> T:
        """The whole answer, once `deltas` has ended."""
        return self._work.result()

    def _put(self, text: str, index: int) -> None:
        self._pending[index] = self._pending.get(index, "") + text
        self._news.set()
        if index not in self._shown:
            self._shown.add(index)
            self._hurry.set()

    def _wake(self) -> None:
        self._news.set()
        self._hurry.set()
