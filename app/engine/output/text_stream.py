"""Streams of text. Text that a slow reader has not taken is merged, never queued."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """One generated token. text: "" for part of a character, shown by its last token. log_probability: in nats, at
    temperature 1 without top-k or top-p. top: the most likely tokens with text and log-probability, if requested."""

    id: int
    text: str
    log_probability: float
    top: tuple[tuple[int, str, float], ...] = ()


class ShowText(Protocol):
    """Called with the next text of continuation `index`, with its tokens if requested."""

    def __call__(self, text: str, index: int, tokens: Sequence[WrittenToken] = ()) -> None: ...


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text of continuation `index`. tokens: if requested; their texts join to the text."""

    text: str
    index: int = 0
    tokens: tuple[WrittenToken, ...] = ()


class TextStream(Generic[T]):
    """A streamed answer. The writer never waits for the reader: untaken text is merged, at most to the whole answer."""

    def __init__(self, work: Callable[[ShowText], Coroutine[Any, Any, T]]) -> None:
        self._pending: dict[int, TextDelta] = {}
        self._reader: asyncio.Future[None] | None = None  # resolved when there is text or the work ends
        self._work = asyncio.create_task(work(self._put))
        self._work.add_done_callback(lambda _: self._wake())

    @classmethod
    @asynccontextmanager
    async def opened(cls, work: Callable[[ShowText], Coroutine[Any, Any, T]]) -> AsyncIterator[TextStream[T]]:
        """Opens at the first text, or at the end if there is none. Errors before that are raised here, so that they can
        be answered with a status code. Leaving the context cancels the work."""
        stream = cls(work)
        try:
            await stream._news()
            if stream._work.done() and not stream._pending:
                stream._work.result()
            yield stream
        finally:
            stream._work.cancel()
            await asyncio.wait([stream._work])
            stream._work.cancelled() or stream._work.exception()  # marks the error as retrieved: the reader is gone

    @property
    def ended(self) -> bool:
        """Whether all text has been taken and the work is done; `result` then returns or raises."""
        return self._work.done() and not self._pending

    @property
    def result(self) -> T:
        """The whole answer, once `ended`. Raises the error that ended the work."""
        return self._work.result()

    async def taken(self) -> list[TextDelta]:
        """Waits for new text of any continuation and returns it; [] at the end."""
        await self._news()
        deltas, self._pending = self._pending, {}
        return list(deltas.values())

    async def deltas(self) -> AsyncIterator[TextDelta]:
        """Iterates over new text, then raises the error that ended the work, if any."""
        while not self.ended:
            for delta in await self.taken():
                yield delta
        self._work.result()

    async def _news(self) -> None:
        while not self._pending and not self._work.done():
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def _put(self, text: str, index: int, tokens: Sequence[WrittenToken] = ()) -> None:
        before = self._pending.get(index, TextDelta(""))
        self._pending[index] = TextDelta(before.text + text, index, (*before.tokens, *tokens))
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
