"""Text streams without an engine: when added text is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from app.engine.output.text_stream import ShowText, TextDelta, TextStream


def run(scene: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(5):
            await scene

    asyncio.run(bounded())


async def settled() -> None:
    """Everything that can happen now has happened."""
    for _ in range(10):
        await asyncio.sleep(0)


class Script:
    """Work that the test drives: what it puts, and when it ends."""

    def __init__(self) -> None:
        self.show: ShowText
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    async def __call__(self, show: ShowText) -> str:
        self.show = show
        show("a", 0)
        try:
            return await self.end
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def test_unread_deltas_merge_into_one() -> None:
    async def scene() -> None:
        script = Script()
        async with TextStream.opened(script) as stream:
            deltas = stream.deltas()
            assert await anext(deltas) == TextDelta("a")
            for _ in range(1000):
                script.show("b", 0)
                script.show("c", 1)
            assert [await anext(deltas), await anext(deltas)] == [TextDelta("b" * 1000), TextDelta("c" * 1000, 1)]
            script.show("d", 0)
            script.end.set_result("all")
            assert [delta async for delta in deltas] == [TextDelta("d")]
            assert stream.result == "all"

    run(scene())


def test_text_added_while_the_reader_is_busy_is_not_lost() -> None:
    async def scene() -> None:
        script = Script()
        async with TextStream.opened(script) as stream:
            heard = []
            async for delta in stream.deltas():
                heard.append(delta.text)
                if len(heard) == 1:  # it writes this one for so long that all else happens meanwhile
                    script.show("b", 0)
                    script.end.set_result("all")
                    await settled()
            assert heard == ["a", "b"]

    run(scene())


def test_each_text_is_delivered() -> None:
    async def scene() -> None:
        script = Script()
        async with TextStream.opened(script) as stream:
            deltas = stream.deltas()
            await anext(deltas)
            for text in "bcd":
                script.show(text, 0)
                assert await anext(deltas) == TextDelta(text)

    run(scene())


def test_failure_before_the_first_text_is_raised_at_the_opening() -> None:
    async def fails(show: ShowText) -> str:
        raise KeyError("early")

    async def scene() -> None:
        with pytest.raises(KeyError, match="early"):
            async with TextStream.opened(fails):
                pytest.fail("opened")

    run(scene())


def test_later_failure_is_raised_after_the_texts_before_it() -> None:
    async def scene() -> None:
        script = Script()
        async with TextStream.opened(script) as stream:
            script.show("b", 0)
            script.end.set_exception(KeyError("late"))
            heard = []
            with pytest.raises(KeyError, match="late"):
                async for delta in stream.deltas():
                    heard.append(delta)  # noqa: PERF401 - what came before the failure counts
            assert heard == [TextDelta("ab")]

    run(scene())


def test_leaving_cancels_the_work() -> None:
    async def scene() -> None:
        script = Script()
        async with TextStream.opened(script) as stream:
            await anext(stream.deltas())
        assert script.cancelled

    run(scene())


def test_cancelled_opening_cancels_the_work() -> None:
    async def scene() -> None:
        cancelled = asyncio.Event()

        async def silent(show: ShowText) -> str:
            try:
                return await asyncio.get_running_loop().create_future()
            finally:
                cancelled.set()

        async def reader() -> None:
            async with TextStream.opened(silent):
                pytest.fail("opened")

        reading = asyncio.create_task(reader())
        await settled()
        reading.cancel()
        await asyncio.wait([reading])
        assert cancelled.is_set()

    run(scene())
