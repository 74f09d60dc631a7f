"""The interpreter as the front end shares it: turns of threads, and garbage collections while there is little to do."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from app import interpreter
from app.interpreter import (
    FEW_OBJECTS,
    LONGEST_PAUSE_S,
    MANY_OBJECTS,
    SWITCH_INTERVAL_S,
    YOUNG_COLLECTIONS,
    YOUNG_OBJECTS,
    full_collection_is_due,
    give_way,
    shared_interpreter,
)
from app.text.language_detection import Detector


class Full:
    """Counts full collections."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        self.count += phase == "start" and info["generation"] == 2


def test_threads_take_short_turns_and_all_is_as_before_at_the_end() -> None:
    before = sys.getswitchinterval(), gc.get_threshold()

    async def run() -> None:
        async with shared_interpreter():
            assert sys.getswitchinterval() < before[0]
            assert gc.get_threshold()[:2] == (YOUNG_OBJECTS, YOUNG_COLLECTIONS)

    asyncio.run(run())
    assert (sys.getswitchinterval(), gc.get_threshold()) == before


class Clock:
    """Stands in for the module time of `app.interpreter`: computing takes as long as a test says."""

    def __init__(self) -> None:
        self.computed_s = 0.0
        self.sleeps: list[str] = []

    def thread_time(self) -> float:
        return self.computed_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0  # at 0 the thread would have the interpreter back before another one wakes
        self.sleeps.append(threading.current_thread().name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(interpreter, "time", clock)
    return clock


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work, name="computing")
    thread.start()
    thread.join()


def test_a_thread_gives_way_once_in_each_interval_of_computing(clock: Clock) -> None:
    def compute() -> None:
        for _ in range(100):
            clock.computed_s += SWITCH_INTERVAL_S / 10
            give_way()

    in_thread(compute)
    assert clock.sleeps == ["computing"] * len(clock.sleeps)
    assert 8 <= len(clock.sleeps) <= 10


def test_an_event_loop_never_sleeps_to_give_way(clock: Clock) -> None:
    async def run() -> None:
        for _ in range(100):
            clock.computed_s += SWITCH_INTERVAL_S
            give_way()

    asyncio.run(run())
    assert clock.sleeps == []


def test_detection_of_many_sentences_in_a_thread_gives_way(clock: Clock) -> None:
    """The calls of numpy within wake the event loop and have the interpreter again before it takes it."""
    detector = Detector()

    def detect() -> None:
        for _ in range(20):
            clock.computed_s += SWITCH_INTERVAL_S
            detector.identify("Ein kleiner Satz.", ["de", "en"])

    in_thread(detect)
    assert len(clock.sleeps) >= 19


def test_objects_of_a_large_request_set_off_no_full_collection() -> None:
    """With Python's own thresholds these lists set several off, each of which looks at all of them."""

    async def run() -> int:
        full = Full()
        async with shared_interpreter():
            gc.callbacks.append(full)
            try:
                kept: list[list[object]] = [[] for _ in range(500_000)]
            finally:
                gc.callbacks.remove(full)
        assert len(kept) == 500_000
        return full.count

    assert asyncio.run(run()) == 0


def test_garbage_in_cycles_is_collected_while_there_are_few_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_CHECK_INTERVAL_S", 0.01)

    class Cycle:
        def __init__(self) -> None:
            self.own = self

    async def run() -> None:
        async with shared_interpreter():
            kept = Cycle()
            gone = weakref.ref(kept)
            gc.collect(1)  # from here on it is one of the oldest generation
            del kept
            async with asyncio.timeout(20):
                while gone() is not None:
                    for _ in range(10_000):  # which Python's own thresholds of the younger generations collect
                        Cycle()
                    await asyncio.sleep(0.01)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("objects", "since_last_s", "due"),
    [
        (FEW_OBJECTS, 0.0, True),
        (FEW_OBJECTS + 1, 1.0, False),
        (MANY_OBJECTS - 1, 1.0, False),
        (MANY_OBJECTS, 0.0, True),
        (FEW_OBJECTS + 1, LONGEST_PAUSE_S, True),
    ],
)
def test_when_a_full_collection_is_due(objects: int, since_last_s: float, due: bool) -> None:
    assert full_collection_is_due(objects, since_last_s) == due
