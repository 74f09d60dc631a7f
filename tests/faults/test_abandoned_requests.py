"""Requests of clients that disconnect before the answer, and the computation they still cause."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.app.engine.engine_thread import Running, options
from tests.request_builders import generation_request

pytestmark = pytest.mark.faults
PROMPT_TOKENS = 2
BEFORE, BESIDE = 10, 40  # tokens of the clock: until the request comes, and until it is left


def test_disconnect_stops_decoding_within_two_steps(slow_lyricist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It streams no tokens itself; a stream on the same rows and steps serves as its clock."""
    running = Running(options(slow_lyricist, worker_hang_timeout_s=2.0))  # a beat is due four times as often
    try:
        running.ready()
        wasted, steps = list[int](), list[int]()
        monkeypatch.setattr(running.pool.admission, "wasted", lambda *given: wasted.append(given[-1]))

        async def leave() -> int:
            """Steps of the request that the clock did not see between its coming and its leaving."""
            clock, came, left = 0, 0, 0
            task: asyncio.Task[Any] | None = None
            async with running.pool.stream_generation(
                generation_request("分开", max_new_tokens=2000, seed=1)
            ) as stream:
                async for delta in stream.deltas():
                    clock += len(delta.text)
                    if task is None and clock >= BEFORE:
                        request = generation_request("分开", max_new_tokens=2000, seed=2)
                        task, came = asyncio.create_task(running.pool.generate(request)), clock
                    elif task is not None and not left and clock >= came + BESIDE:
                        task.cancel()
                        left = clock
                        with contextlib.suppress(asyncio.CancelledError):
                            await task
                    if left and sum(wasted):  # by a beat in which the clock was not left yet
                        return sum(wasted) - PROMPT_TOKENS - (left - came)
            raise AssertionError("the clock has run down")

        for _ in range(9):
            wasted.clear()
            steps.append(running.do(leave()))
            running.until(lambda: sum(map(bool, wasted)) == 2, "the clock was not told to stop")
        print(f"steps after a client left, beyond those that the clock saw: {sorted(steps)}")
        assert min(steps) > -BESIDE  # else it never ran
        assert statistics.median(steps) <= 2  # not all: the machine may take the front end's core away for a while
    finally:
        running.close()
