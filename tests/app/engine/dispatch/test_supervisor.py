"""Device processes that never come up, hang, or end at the wrong moment; none of them is real."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from app.engine.dispatch import supervisor as module
from app.engine.dispatch.supervisor import WorkerProcess
from app.engine.protocol import messages as m
from tests.app.engine.fake_process import FakeProcess, a_supervisor


def test_failed_start_is_retried(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        deaths: list[str] = []
        supervisor = a_supervisor(deaths)
        fake.fails = RuntimeError("can't start new thread")
        supervisor.spawn_all()
        supervisor.devices["cpu"].pause_s = 0.01
        await asyncio.sleep(0.005)
        assert (supervisor.devices["cpu"].state, deaths) == ("restarting", ["cpu"])
        fake.fails = None
        await asyncio.sleep(0.03)
        assert len(fake.started) == 2
        fake.started[-1].on_message("cpu", m.Loaded("a", 0.1))
        assert supervisor.devices["cpu"].state == "ready"
        await supervisor.stop()

    asyncio.run(scene())


def test_shutdown_fails_waiting_requests(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        deaths: list[str] = []
        supervisor = a_supervisor(deaths)
        supervisor.spawn_all()
        await asyncio.sleep(0)
        fake.started[0].on_message("cpu", m.Loaded("a", 0.1))
        assert supervisor.least_busy("a") is supervisor.devices["cpu"]
        await supervisor.stop()
        assert deaths == ["cpu"]
        assert supervisor.least_busy("a") is None
        assert supervisor.devices["cpu"].state == "stopped"
        await supervisor.stop()  # twice does no harm
        assert len(fake.started) == 1

    asyncio.run(scene())


def test_the_start_timeout_ends_a_process_that_hangs_and_not_one_that_is_over(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        supervisor = a_supervisor([], start_timeout_s=0.02)
        supervisor.spawn_all()
        while not fake.started:
            await asyncio.sleep(0)
        fake.started[0].on_death("cpu")  # its pause is longer than the timeout
        await asyncio.sleep(0.04)
        assert fake.started[0].killed == 0
        await supervisor.stop()

        supervisor = a_supervisor([], start_timeout_s=0.02)
        supervisor.spawn_all()
        end = asyncio.get_running_loop().time() + 3
        while not any(each.killed for each in fake.started[1:]) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.01)
        assert fake.started[1].killed == 1
        await supervisor.stop()

    asyncio.run(scene())


def test_silent_worker_is_ended_but_not_one_that_beats_or_loads(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        deaths: list[str] = []
        supervisor = a_supervisor(deaths, ("cpu", "cuda:0"), hang_timeout_s=0.1)
        supervisor.spawn_all()
        await asyncio.sleep(0)
        cpu, cuda = fake.started
        await asyncio.sleep(0.15)  # both still load, so nothing is heard of them
        assert (cpu.killed, cuda.killed) == (0, 0)
        cpu.says(m.Loaded("a", 0.1))
        cuda.says(m.Loaded("a", 0.1))
        end = asyncio.get_running_loop().time() + 3
        while not deaths and asyncio.get_running_loop().time() < end:
            cpu.says(m.Heartbeat([]))
            await asyncio.sleep(0.01)
        assert (cpu.killed, cuda.killed, deaths) == (0, 1, ["cuda:0"])
        assert supervisor.least_busy("a") is supervisor.devices["cpu"]
        await supervisor.stop()

    asyncio.run(scene())


def test_own_suspension_is_not_counted_as_worker_silence(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        supervisor = a_supervisor([], hang_timeout_s=0.2, start_timeout_s=0.2)
        supervisor.spawn_all()
        await asyncio.sleep(0)
        fake.started[0].says(m.Loaded("a", 0.1))
        await asyncio.sleep(0.01)
        time.sleep(0.4)  # as if this process had been stopped: nothing could be heard
        for _ in range(3):
            await asyncio.sleep(0)
        assert fake.started[0].killed == 0
        await asyncio.sleep(0.4)  # awake, and still nothing
        assert fake.started[0].killed == 1
        await supervisor.stop()

    asyncio.run(scene())


def test_pauses_grow_until_a_process_was_healthy_for_a_while(
    fake: type[FakeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        supervisor = a_supervisor([])
        device = supervisor.devices["cpu"]
        monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
        device.pause_s = 0.01
        supervisor.spawn_all()
        pauses = []
        for number in range(4):
            while len(fake.started) <= number:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0)
            if number != 1:  # ready at once, and dead at once: no health
                fake.started[number].says(m.Loaded("a", 0.1))
            fake.started[number].on_death("cpu")
            pauses.append(device.pause_s)
        assert pauses == [0.01, 0.02, 0.04, 0.08]
        assert supervisor.problems() == ["cpu is restarting; its process has ended 4 times in a row."]
        while len(fake.started) <= 4:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        assert device.problem is not None  # restarted, but not yet healthy for long enough
        fake.started[4].says(m.Loaded("a", 0.1))
        assert supervisor.problems() == ["cpu is ready; its process has ended 4 times in a row."]
        monkeypatch.setattr(module, "HEALTHY_S", 0.0)
        assert supervisor.problems() == []
        fake.started[4].on_death("cpu")
        assert (device.pause_s, supervisor.problems()) == (0.01, ["cpu is restarting."])
        await supervisor.stop()

    asyncio.run(scene())


def open_files() -> int:
    gc.collect()  # what earlier tests left behind is closed now, and not in the middle of the count
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files as Linux shows them")
def test_a_failed_start_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_: Any, **__: Any) -> Any:
        raise PermissionError

    async def scene() -> None:
        monkeypatch.setattr(subprocess, "Popen", no_process)
        before = open_files()
        process = WorkerProcess("cpu", on_message=lambda *_: None, on_death=lambda _: None)
        with pytest.raises(PermissionError):
            await process.start({})
        await process.stop(1.0)
        await asyncio.sleep(0)
        assert open_files() == before

    asyncio.run(scene())
