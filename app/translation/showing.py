"""The sentences of one text, translated side by side and shown in their order while they are written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from app.engine.errors import Overloaded
from app.engine.jobs import Engine, Translation
from app.engine.streaming import Show
from app.translation.asking import Asker
from app.translation.faithful import or_source
from app.translation.task import Task
from app.translation.tidying import Tidying, tidied

_SIDE_BY_SIDE = 16  # as many as the default slots hold with beams of 4


class _Line:
    """What one sentence has so far, for one reader."""

    def __init__(self) -> None:
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self.put = self._texts.put_nowait

    async def next(self) -> str | None:
        """None: that was all."""
        return await self._texts.get()


async def shown_in_order(
    tasks: Sequence[Task],
    between: Sequence[str],
    engine: Engine,
    asker: Asker,
    mended: Callable[[Task, bool], Awaitable[Translation]],
    show: Show,
) -> list[Translation]:
    """between: what stands before each sentence, and after the last. mended: of a task, and whether others have begun.
    What goes wrong with the first before it has a
    text is raised before anything was shown."""
    room = asyncio.Semaphore(_SIDE_BY_SIDE)
    lines = [_Line() for _ in tasks]

    async def one(number: int) -> Translation:
        async with room:
            try:
                as_written = tasks[number].plain and not tasks[number].sentence.marks
                if as_written and asker.known(tasks[number].job) is None:
                    return await _streamed(tasks[number], lines[number], engine, first=number == 0)
                translation = await mended(tasks[number], number > 0)
                lines[number].put(translation.text)
                return translation
            finally:
                lines[number].put(None)

    running = [asyncio.create_task(one(number)) for number in range(len(tasks))]
    try:
        for number, line in enumerate(lines):
            before = between[number]
            while (text := await line.next()) is not None:
                if text:
                    show(before + text, 0)
                    before = ""
            await running[number]
            if before:
                show(before, 0)
        if between[-1]:
            show(between[-1], 0)
        return [task.result() for task in running]
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
            for task in running:
                task.cancelled() or task.exception()  # raised once is enough


async def _streamed(task: Task, line: _Line, engine: Engine, *, first: bool) -> Translation:
    """As it is written. Those behind the first wait for room."""
    wait, shown, tidying = 0.05, False, Tidying(task.job.prefix)
    while True:
        try:
            async with engine.stream_translation(task.job) as stream:
                async for delta in stream.deltas():
                    if text := tidying.more(delta.text):
                        line.put(text)
                        shown = True
                result = tidied(stream.result, task.job.prefix)
            if not shown:
                result = or_source(task, result)
                line.put(result.text)
            return result
        except Overloaded:
            if first or shown or wait > 30:
                raise
        await asyncio.sleep(wait)
        wait *= 2
