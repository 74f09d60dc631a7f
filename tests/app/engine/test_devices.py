"""Device processes that never come up, hang, or end at the wrong moment; none of them is real."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.engine import devices as module
from app.engine import messages as m
from app.engine.device import DeviceProcess
from app.engine.devices import Devices


class FakeProcess:
    """Ends when it is told to."""

    started: list[FakeProcess]
    fails: Exception | None

    def __init__(self, device: str, *, on_message: Any, on_death: Any) -> None:
        self.device, self.on_message, self.on_death, self.killed = device, on_message, on_death, 0
        self.pid = 1

    async def start(self, first: list[Any]) -> None:
        self.started.append(self)
        if self.fails is not None:
            raise self.fails

    async def kill(self) -> None:
        self.killed += 1
        self.on_death(self.device)

    async def stop(self, timeout_s: float) -> None:
        self.on_death(self.device)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeProcess]:
    monkeypatch.setattr(module, "DeviceProcess", FakeProcess)
    monkeypatch.setattr(FakeProcess, "started", [], raising=False)
    monkeypatch.setattr(FakeProcess, "fails", None, raising=False)
    return FakeProcess


def some_devices(deaths: list[str], **change: Any) -> Devices:
    options: dict[str, Any] = {
        "threads": 1,
        "slots": 1,
        "start_timeout_s": 60.0,
        "to_load": lambda: {"a": m.Load("a", "/a")},
        "on_reply": lambda message: None,
        "on_failure": lambda name, problem: None,
        "on_death": deaths.append,
        "on_beat": lambda name, beat: None,
    }
    return Devices(["cpu"], **{**options, **change})


def test_whatever_keeps_a_process_from_starting_it_is_tried_again(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        deaths: list[str] = []
        devices = some_devices(deaths)
        fake.fails = RuntimeError("can't start new thread")
        devices.spawn_all()
        devices.all["cpu"].pause_s = 0.01
        await asyncio.sleep(0.005)
        assert (devices.all["cpu"].state, deaths) == ("restarting", ["cpu"])
        fake.fails = None
        await asyncio.sleep(0.03)
        assert len(fake.started) == 2
        fake.started[-1].on_message("cpu", m.Loaded("a", 0.1))
        assert devices.all["cpu"].state == "ready"
        await devices.stop()

    asyncio.run(scene())


def test_the_end_tells_who_still_waits_and_leaves_nobody_to_ask(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        deaths: list[str] = []
        devices = some_devices(deaths)
        devices.spawn_all()
        await asyncio.sleep(0)
        fake.started[0].on_message("cpu", m.Loaded("a", 0.1))
        assert devices.least_busy("a") is devices.all["cpu"]
        await devices.stop()
        assert deaths == ["cpu"]
        assert devices.least_busy("a") is None
        assert devices.all["cpu"].state == "stopped"
        await devices.stop()  # twice does no harm
        assert len(fake.started) == 1

    asyncio.run(scene())


def test_the_start_timeout_ends_a_process_that_hangs_and_not_one_that_is_over(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        devices = some_devices([], start_timeout_s=0.02)
        devices.spawn_all()
        await asyncio.sleep(0.005)
        fake.started[0].on_death("cpu")  # its pause is longer than the timeout
        await asyncio.sleep(0.04)
        assert fake.started[0].killed == 0
        await devices.stop()

        devices = some_devices([], start_timeout_s=0.02)
        devices.spawn_all()
        await asyncio.sleep(0.04)
        assert fake.started[1].killed == 1
        await devices.stop()

    asyncio.run(scene())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files as Linux shows them")
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_failed_or_cancelled_start_leaves_no_socket_open(cancelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_process(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(10 if cancelled else 0)
        raise PermissionError

    async def scene() -> None:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", no_process)
        before = open_files()
        process = DeviceProcess("cpu", on_message=lambda *_: None, on_death=lambda _: None)
        starting = asyncio.create_task(process.start([]))
        await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError if cancelled else PermissionError):
            await starting
        await process.stop(1.0)
        await asyncio.sleep(0)
        assert open_files() == before

    asyncio.run(scene())
