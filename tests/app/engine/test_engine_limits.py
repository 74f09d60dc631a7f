"""A pool's deadlines, its beginning, its end, and the death of its process."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from app import errors
from app.engine.async_engine import AsyncEngine
from models import checkpoint as checkpoints
from tests.app.engine.engine_thread import Running, generate, options, together
from tests.request_builders import attention_query, translation_request


@pytest.mark.slow
def test_killed_process_fails_its_requests_and_is_replaced(running: Running) -> None:
    device = running.pool.supervisor.devices["cpu"]
    assert device.process is not None

    async def kill_in_flight() -> list[Any]:
        work = [asyncio.create_task(running.pool.generate(generate(max_new_tokens=2000))) for _ in range(32)]
        await asyncio.sleep(0.05)
        os.kill(device.process.pid, signal.SIGKILL)  # type: ignore[union-attr,arg-type]
        return await asyncio.gather(*work, return_exceptions=True)

    for outcome in running.do(kill_in_flight()):
        assert isinstance(outcome, errors.EngineUnavailable)
    status = running.pool.status()
    assert not status.ready
    assert status.problems == ("cpu is restarting.",)
    running.ready()
    assert len(running.do(running.pool.generate(generate())).continuations[0].text) == 24
    assert device.outstanding_tokens == 0


@pytest.mark.slow
def test_deadlines_overload_and_shutdown(tiny_checkpoints: Path, tmp_path: Path) -> None:
    """One pool with tight limits, one broken checkpoint beside good ones, and its end."""
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    shutil.copytree(root / "tiny-lyrics", root / "torn")
    (root / "torn" / checkpoints.WEIGHTS).write_bytes(b"")
    running = Running(options(root, max_inflight_requests=2, request_timeout_s=0.03))
    try:
        running.ready()
        assert running.pool.status().problems == (
            f"{root}/torn/model.safetensors does not match its checksum; the model was not loaded.",
        )
        request = generate(max_new_tokens=2000, model="tiny-lyrics")
        outcomes = running.do(together(*[running.pool.generate(request) for _ in range(3)]))
        kinds = [type(outcome) for outcome in outcomes]
        assert kinds == [errors.DeadlineExceeded, errors.DeadlineExceeded, errors.Overloaded]
        assert "within 0.03 seconds" in outcomes[0].message
        assert outcomes[2].retry_after_s >= 1
        assert running.pool.admission.all.requests == 0
        pid = running.pool.supervisor.devices["cpu"].process.pid  # type: ignore[union-attr]
    finally:
        running.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)  # type: ignore[arg-type]
    assert not running.pool.status().ready


def test_requests_before_loading_are_retryable(tiny_checkpoints: Path) -> None:
    pool = AsyncEngine(options(tiny_checkpoints))  # not started
    messages: list[Coroutine[Any, Any, Any]] = [
        pool.translate([translation_request("ich", "de", "en")]),
        pool.generate(generate()),
        pool.attention(attention_query("ich")),
    ]
    for outcome in asyncio.run(together(*messages)):
        assert isinstance(outcome, errors.EngineUnavailable)


def test_shutdown_while_loading_starts_no_process(tiny_checkpoints: Path) -> None:
    async def scene() -> AsyncEngine:
        pool = AsyncEngine(options(tiny_checkpoints))
        await pool.start()
        await pool.stop()
        return pool

    assert asyncio.run(scene()).supervisor.devices["cpu"].process is None
