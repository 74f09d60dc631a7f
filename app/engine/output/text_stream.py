"""Streams of text to a reader. What waits for a slow reader is merged into one text, never a queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WrittenToken:
    """text: what it added; "" of a token that is only a part of a character, which stands with the last of its tokens.
    log_probability: in nats, of the model's own distribution, at temperature 1 and without cuts. top: the likeliest
    tokens at its place, each with its text and log-probability, where these are wanted."""

    id: int
    text: str
    log_probability: float
    top: tuple[tuple[int, str, float], ...] = ()


class ShowText(Protocol):
    """Takes the next text of continuation number i, with its tokens where they are wanted."""

    def __call__(self, text: str, index: int, tokens: Sequence[WrittenToken] = ()) -> None: ...


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What was added to continuation `index`. tokens: where they are wanted; their texts join to the text."""

    text: str
    index: int = 0
    tokens: tuple[WrittenToken, ...] = ()


class TextStream(Generic[T]):
    """One request that is answered bit by bit. The writer never waits for the reader: texts that were not taken yet
    are merged, so they hold at most the whole answer. How often they come is the writer's choice."""

    def __init__(self, work: Callable[[ShowText], Coroutine[Any, Any, T]]) -> None:
        self._pending: dict[int, TextDelta] = {}
        self._reader: asyncio.Future[None] | None = None  # set with the next news
        self._work = asyncio.create_task(work(self._put))
        self._work.add_done_callback(lambda _: self._wake())

    @classmethod
    @asynccontextmanager
    async def opened(cls, work: Callable[[ShowText], Coroutine[Any, Any, T]]) -> AsyncIterator[TextStream[T]]:
        """Opens with the first text, or with an end without any. What goes wrong before is raised here, so that it
        can still be answered as if nothing had been streamed. Leaving the context cancels the work."""
        stream = cls(work)
        try:
            await stream._news()
            if stream._work.done() and not stream._pending:
                stream._work.result()
            yield stream
        finally:
            stream._work.cancel()
            await asyncio.wait([stream._work])
            stream._work.cancelled() or stream._work.exception()  # nothing is raised to a reader that has left

    @property
    def ended(self) -> bool:
        """Nothing comes after what has been taken; `result` is there, or raises what went wrong."""
        return self._work.done() and not self._pending

    @property
    def result(self) -> T:
        """The whole answer, once it has `ended`. Raises what ended the work."""
        return self._work.result()

    async def taken(self) -> list[TextDelta]:
        """What was added to each continuation since the last time, as soon as there is any; nothing at the end."""
        await self._news()
        deltas, self._pending = self._pending, {}
        return list(deltas.values())

    async def deltas(self) -> AsyncIterator[TextDelta]:
        """The same one by one. Raises what ended the work, after the texts before it."""
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
