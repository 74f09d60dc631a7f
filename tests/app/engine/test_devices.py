"""Device processes that never come up, hang, or end at the wrong moment; none of them is real."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from app.engine import devices as module
from app.engine import messages as m
from app.engine.device import DeviceProcess
from app.engine.devices import Devices
from app.engine.errors import CheckpointRefused, EngineUnavailable


class FakeProcess:
    """Ends when it is told to."""

    started: list[FakeProcess]
    fails: Exception | None

    def __init__(self, device: str, *, on_message: Any, on_death: Any) -> None:
        self.device, self.on_message, self.on_death, self.killed = device, on_message, on_death, 0
        self.pid = 1
        self.sent: list[Any] = []

    async def start(self, first: list[Any]) -> None:
        self.started.append(self)
        if self.fails is not None:
            raise self.fails

    def send(self, messages: list[Any]) -> None:
        self.sent += messages

    def says(self, *messages: Any) -> None:
        for message in messages:
            self.on_message(self.device, message)

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


def some_devices(deaths: list[str], names: tuple[str, ...] = ("cpu",), **change: Any) -> Devices:
    options: dict[str, Any] = {
        "configure": m.Configure("", 1, 1),
        "start_timeout_s": 60.0,
        "hang_timeout_s": 60.0,
        "to_load": lambda: {"a": m.Load("a", "/a")},
        "on_reply": lambda message: None,
        "on_failure": lambda name, problem: None,
        "on_death": deaths.append,
        "on_beat": lambda name, beat: None,
    }
    return Devices(list(names), **{**options, **change})


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


def test_whoever_says_nothing_is_ended_and_whoever_beats_or_loads_is_not(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        deaths: list[str] = []
        devices = some_devices(deaths, ("cpu", "cuda:0"), hang_timeout_s=0.1)
        devices.spawn_all()
        await asyncio.sleep(0)
        cpu, cuda = fake.started
        await asyncio.sleep(0.15)  # both still load, so nothing is heard of them
        assert (cpu.killed, cuda.killed) == (0, 0)
        cpu.says(m.Loaded("a", 0.1))
        cuda.says(m.Loaded("a", 0.1))
        end = asyncio.get_running_loop().time() + 3
        while not deaths and asyncio.get_running_loop().time() < end:
            cpu.says(m.Beat([]))
            await asyncio.sleep(0.01)
        assert (cpu.killed, cuda.killed, deaths) == (0, 1, ["cuda:0"])
        assert devices.least_busy("a") is devices.all["cpu"]
        await devices.stop()

    asyncio.run(scene())


def test_the_time_in_which_we_slept_ourselves_counts_for_nobody(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        devices = some_devices([], hang_timeout_s=0.2, start_timeout_s=0.2)
        devices.spawn_all()
        await asyncio.sleep(0)
        fake.started[0].says(m.Loaded("a", 0.1))
        await asyncio.sleep(0.01)
        time.sleep(0.4)  # as if this process had been stopped: nothing could be heard
        for _ in range(3):
            await asyncio.sleep(0)
        assert fake.started[0].killed == 0
        await asyncio.sleep(0.4)  # awake, and still nothing
        assert fake.started[0].killed == 1
        await devices.stop()

    asyncio.run(scene())


def test_a_load_at_run_time_has_the_start_timeout_and_fails_with_the_process(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        devices = some_devices([], hang_timeout_s=0.05, start_timeout_s=0.3)
        devices.spawn_all()
        await asyncio.sleep(0)
        fake.started[0].says(m.Loaded("a", 0.1))
        loading = asyncio.create_task(devices.load(m.Load("b@2", "/b")))
        await asyncio.sleep(0.15)
        assert fake.started[0].killed == 0
        with pytest.raises(EngineUnavailable, match="The process of cpu ended while it loaded b; try again"):
            await loading
        devices.unload("b@2")
        assert fake.started[0].killed == 1
        await devices.stop()

    asyncio.run(scene())


def test_pauses_grow_until_a_process_was_healthy_for_a_while(
    fake: type[FakeProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        devices = some_devices([])
        device = devices.all["cpu"]
        monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
        device.pause_s = 0.01
        devices.spawn_all()
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
        assert devices.problems() == ["cpu is restarting; its process has ended 4 times in a row."]
        while len(fake.started) <= 4:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        assert device.problem is not None  # up again, but nobody has said that it stays
        fake.started[4].says(m.Loaded("a", 0.1))
        assert devices.problems() == ["cpu is ready; its process has ended 4 times in a row."]
        monkeypatch.setattr(module, "HEALTHY_S", 0.0)
        assert devices.problems() == []
        fake.started[4].on_death("cpu")
        assert (device.pause_s, devices.problems()) == (0.01, ["cpu is restarting."])
        await devices.stop()

    asyncio.run(scene())


def test_a_model_that_kills_its_process_is_named(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        devices = some_devices([], to_load=lambda: {"a@1": m.Load("a@1", "/a"), "b@1": m.Load("b@1", "/b")})
        devices.all["cpu"].pause_s = 0.001
        devices.spawn_all()
        for number in range(2):
            while len(fake.started) <= number:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0)
            fake.started[number].says(m.Started("cpu"), m.Loaded("a@1", 0.1))
            fake.started[number].on_death("cpu")
        (problem,) = devices.problems()
        assert problem == "cpu is restarting; its process has ended 2 times in a row, last while it loaded b."
        await devices.stop()

    asyncio.run(scene())


def test_a_model_that_one_device_cannot_load_stays_on_the_others(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        gone: list[tuple[str, str]] = []
        models = {"a@1": m.Load("a@1", "/a"), "b@1": m.Load("b@1", "/b")}
        devices = some_devices(
            [], ("cuda:0", "cpu"), to_load=lambda: models, on_failure=lambda name, why: gone.append((name, why))
        )
        devices.spawn_all()
        await asyncio.sleep(0)
        cuda, cpu = fake.started
        cuda.says(m.Loaded("a@1", 0.1), m.LoadFailed("b@1", "No kernel for it."))
        cpu.says(m.Loaded("a@1", 0.1), m.Loaded("b@1", 0.1))
        assert [device.state for device in devices.all.values()] == ["ready", "ready"]
        assert devices.least_busy("b@1") is devices.all["cpu"]
        assert devices.problems() == ["cuda:0 does not have b: No kernel for it."]
        assert gone == []
        await devices.stop()

    asyncio.run(scene())


def test_a_model_that_no_device_can_load_is_given_up(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        gone: list[tuple[str, str]] = []
        devices = some_devices([], ("cuda:0", "cpu"), on_failure=lambda name, why: gone.append((name, why)))
        devices.spawn_all()
        await asyncio.sleep(0)
        for process in fake.started:
            assert gone == []
            process.says(m.LoadFailed("a", "Torn."))
        assert gone == [("a", "Torn.")]
        await devices.stop()

    asyncio.run(scene())


def test_who_starts_during_a_load_gets_it_too_and_once(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        devices = some_devices([], ("cpu", "cuda:0"))
        devices.spawn_all()
        await asyncio.sleep(0)
        cpu, late = fake.started
        cpu.says(m.Loaded("a", 0.1))  # the other one still loads a
        loading = asyncio.create_task(devices.load(m.Load("b@2", "/b")))
        await asyncio.sleep(0)
        devices.all["cuda:0"].pause_s = 0.001
        late.on_death("cuda:0")
        while len(fake.started) < 3:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0)
        assert [message.name for message in fake.started[2].sent] == ["a", "b@2"]
        cpu.says(m.Loaded("b@2", 0.1))
        await loading  # who was not ready when it began is not waited for
        devices.unload("b@2")
        fake.started[2].says(m.Loaded("a", 0.1), m.Loaded("b@2", 0.1))  # crosses with the unloading
        assert [device.loaded for device in devices.all.values()] == [{"a"}, {"a"}]
        assert fake.started[2].sent[-1] == m.Unload("b@2")
        await devices.stop()

    asyncio.run(scene())


def test_a_version_that_one_device_refuses_is_taken_back_from_all(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        gone: list[str] = []
        devices = some_devices([], ("cpu", "cuda:0"), on_failure=lambda name, why: gone.append(name))
        devices.spawn_all()
        await asyncio.sleep(0)
        for process in fake.started:
            process.says(m.Loaded("a", 0.1))
        loading = asyncio.create_task(devices.load(m.Load("b@2", "/b")))
        await asyncio.sleep(0)
        fake.started[0].says(m.Loaded("b@2", 0.1))
        fake.started[1].says(m.LoadFailed("b@2", "No kernel for it."))
        with pytest.raises(CheckpointRefused, match="No kernel for it"):
            await loading
        devices.unload("b@2")
        assert [process.sent[-1] for process in fake.started] == [m.Unload("b@2")] * 2
        assert [device.loaded for device in devices.all.values()] == [{"a"}, {"a"}]
        assert (gone, devices.problems()) == ([], [])
        await devices.stop()

    asyncio.run(scene())


def test_where_nothing_was_loaded_the_first_load_starts_the_processes(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        devices = some_devices([], to_load=dict)
        devices.leave_idle()
        loading = asyncio.create_task(devices.load(m.Load("b@1", "/b")))
        while not fake.started or not fake.started[0].sent:
            await asyncio.sleep(0)
        fake.started[0].says(m.Started("cpu"), m.Loaded("b@1", 0.1))
        await loading
        assert (devices.all["cpu"].state, devices.all["cpu"].loaded) == ("ready", {"b@1"})
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
