"""An engine on an event loop of its own, and requests to it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from app.engine.async_engine import AsyncEngine
from app.engine.interface import EngineSettings, GenerationRequest
from tests.request_builders import generation_request

READY_S = 60.0


class Running:
    """A pool on an event loop of its own."""

    def __init__(self, options: EngineSettings) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.pool = AsyncEngine(options)
        self.do(self.pool.start())

    def do(self, work: Coroutine[Any, Any, Any], timeout: float = 60) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def until(self, condition: Any, what: str) -> None:
        end = time.monotonic() + READY_S
        while not condition():
            assert time.monotonic() < end, f"{what}: {self.pool.status()}"
            time.sleep(0.02)

    def ready(self) -> None:
        self.until(lambda: self.pool.status().ready, "not ready")

    def close(self) -> None:
        self.do(self.pool.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def options(root: Path, **change: Any) -> EngineSettings:
    tests = {"devices": "cpu", "cpu_threads": 1, "slots_per_model": 8, "precision": "fp32"}
    return EngineSettings(**{"checkpoints": root, **tests, **change})


def generate(**change: Any) -> GenerationRequest:
    return generation_request(**{"prompt": "分开", "max_new_tokens": 24, "seed": 5, **change})


def spied(running: Running, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The messages sent to the device process from now on."""
    process = running.pool.supervisor.devices["cpu"].process
    assert process is not None
    sent: list[Any] = []
    send = process.send
    monkeypatch.setattr(process, "send", lambda messages: (sent.extend(messages), send(messages)))
    return sent


async def together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


async def read_stream(opened: Any) -> tuple[dict[int, str], Any]:
    texts: dict[int, str] = {}
    async with opened as stream:
        async for delta in stream.deltas():
            texts[delta.index] = texts.get(delta.index, "") + delta.text
        return texts, stream.result
