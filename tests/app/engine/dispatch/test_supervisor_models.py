"""Which model is on which device: loads that fail, cross with others or kill; no process is real."""

from __future__ import annotations

import asyncio

import pytest

from app.engine.errors import CheckpointRefused, EngineUnavailable
from app.engine.protocol import messages as m
from tests.app.engine.fake_process import FakeProcess, some_devices


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
