"""Fixtures: a scheduler, a pool and inline devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.dispatch import supervisor as module
from app.engine.protocol import messages as m
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler
from tests.app.engine.engine_thread import Running, options
from tests.app.engine.fake_clock import Clock
from tests.app.engine.fake_process import FakeProcess


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def scheduler(tiny_checkpoints: Path) -> Scheduler:
    scheduler = Scheduler(ModelRunner("cpu", 1, slots=8))
    for name in ("tiny-de-en", "tiny-lyrics"):
        reply = scheduler.handle(m.Load(name, str(tiny_checkpoints / name)))
        assert isinstance(reply[0], m.Loaded)
        scheduler.queues[name].model.gradual = False  # or what starts when would hang on the clock
    return scheduler


@pytest.fixture(scope="session")
def running(tiny_checkpoints: Path) -> Iterator[Running]:
    running = Running(options(tiny_checkpoints))
    try:
        running.ready()
        yield running
    finally:
        running.close()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeProcess]:
    monkeypatch.setattr(module, "WorkerProcess", FakeProcess)
    monkeypatch.setattr(FakeProcess, "started", [], raising=False)
    monkeypatch.setattr(FakeProcess, "fails", None, raising=False)
    return FakeProcess
