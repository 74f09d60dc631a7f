"""Work on long texts in slices, beside the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.engine.interface import TranslationOptions
from app.interpreter import LONG_CHARACTERS, in_thread, in_thread_if_long
from app.translation.driver import Translator
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request


def test_short_texts_are_worked_on_in_place_and_long_ones_in_threads() -> None:
    def thread(characters: int) -> threading.Thread:
        return asyncio.run(in_thread_if_long(characters, threading.current_thread))

    assert thread(LONG_CHARACTERS) is threading.main_thread()
    assert thread(LONG_CHARACTERS + 1) is not threading.main_thread()


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

    async def slices(request: int) -> None:
        for _ in range(8):
            await in_thread(work, request)

    async def run() -> None:
        await asyncio.gather(*map(slices, range(6)))

    asyncio.run(run())
    assert most == 2
    assert set(order[:6]) == set(range(6))
    assert sorted(order) == sorted([*range(6)] * 8)


def test_cancelled_translation_ends_with_its_slice() -> None:
    """Long texts are computed in threads, which cannot be cancelled."""
    started, go_on = threading.Event(), threading.Event()
    worked: list[int] = []

    def languages(sentences: Sequence[str], options: TranslationOptions) -> list[TranslationOptions]:
        worked.append(len(sentences))
        started.set()
        assert go_on.wait(10)
        time.sleep(0.05)  # longer than a slice
        return [options] * len(sentences)

    engine = WordEngine()
    texts = [replace(text_request("Ein Satz. " * 1000, "de", "en"), languages=languages) for _ in range(3)]

    async def cancelled() -> None:
        task = asyncio.create_task(Translator(engine).translate(texts))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    asyncio.run(cancelled())  # waits for the thread
    assert worked == [1000]
    assert engine.requests == []
