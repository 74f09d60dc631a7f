"""Work on long texts in slices, beside the event loop."""

from __future__ import annotations

import asyncio
import threading
import time

from app.interpreter import each_in_thread

LONG = 20_000  # characters of a slice


def test_short_texts_are_worked_on_in_place_and_long_ones_in_threads() -> None:
    async def threads(length: int) -> list[threading.Thread]:
        return await each_in_thread([1, 2], [length, length], lambda _: threading.current_thread())

    assert asyncio.run(threads(10)) == [threading.main_thread()] * 2
    assert threading.main_thread() not in asyncio.run(threads(LONG))


def test_slices_of_many_requests_take_turns_in_two_threads() -> None:
    """Each request has one slice in work at most, and a late request waits for no more than a slice of each other."""
    order: list[int] = []
    running = most = 0
    lock = threading.Lock()

    def work(request: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            order.append(request)
        time.sleep(0.002)
        with lock:
            running -= 1

    async def run() -> None:
        await asyncio.gather(*[each_in_thread([request] * 8, [LONG] * 8, work) for request in range(6)])

    asyncio.run(run())
    assert most == 2
    assert set(order[:6]) == set(range(6))
    assert sorted(order) == sorted([*range(6)] * 8)
