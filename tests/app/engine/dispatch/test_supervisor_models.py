"""Which model is on which device: loads that fail, cross with others or kill; no process is real."""

from __future__ import annotations

import asyncio

import pytest

from app.engine.protocol import messages as m
from app.errors import CheckpointRefused, EngineUnavailable
from tests.app.engine.fake_process import FakeProcess, a_supervisor


def test_a_load_at_run_time_has_the_start_timeout_and_fails_with_the_process(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        supervisor = a_supervisor([], hang_timeout_s=0.05, start_timeout_s=0.3)
        supervisor.spawn_all()
        await asyncio.sleep(0)
        fake.started[0].says(m.Loaded("a", 0.1))
        loading = asyncio.create_task(supervisor.load(m.Load("b@2", "/b")))
        await asyncio.sleep(0.15)
        assert fake.started[0].killed == 0
        with pytest.raises(EngineUnavailable, match="was ended because it had not loaded b within 0"):
            await loading
        supervisor.unload("b@2")
        assert fake.started[0].killed == 1
        await supervisor.stop()

    asyncio.run(scene())


def test_a_model_that_kills_its_process_is_named(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        supervisor = a_supervisor([], to_load=lambda: {"a@1": m.Load("a@1", "/a"), "b@1": m.Load("b@1", "/b")})
        supervisor.devices["cpu"].pause_s = 0.001
        supervisor.spawn_all()
        for number in range(2):
            while len(fake.started) <= number:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0)
            fake.started[number].says(m.Started("cpu"), m.Loaded("a@1", 0.1))
            fake.started[number].on_death("cpu")
        (problem,) = supervisor.problems()
        assert problem == "cpu is restarting; its process has ended 2 times in a row, last while it loaded b."
        await supervisor.stop()

    asyncio.run(scene())


def test_model_that_ends_every_process_is_left_out_and_the_others_are_served(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        models = {"a@1": m.Load("a@1", "/a"), "b@1": m.Load("b@1", "/b")}
        gone = dict[str, str]()

        def withdraw(name: str, reason: str) -> None:
            gone[name] = reason
            del models[name]

        supervisor = a_supervisor([], to_load=lambda: models, on_failure=withdraw)
        device = supervisor.devices["cpu"]
        supervisor.spawn_all()
        for number in range(4):
            device.pause_s = 0.001
            while len(fake.started) <= number:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0)
            process = fake.started[number]
            if number == 3:
                break
            if number == 2:
                assert [load.name for load in process.sent] == ["b@1", "a@1"], "the one at fault comes last"
                process.says(m.Loaded("b@1", 0.1))
            process.on_death("cpu")
        assert [load.name for load in process.sent] == ["b@1"]
        process.says(m.Loaded("b@1", 0.1))
        assert device.state == "ready"
        assert gone == {"a@1": "The process of cpu ended 3 times in a row while it loaded a; it is left out."}
        await supervisor.stop()

    asyncio.run(scene())


def test_slow_loads_name_the_start_timeout_and_leave_no_model_out(
    fake: type[FakeProcess], caplog: pytest.LogCaptureFixture
) -> None:
    """Each of its processes gets twice the time of the one before."""

    def clause(number: int) -> str:
        way_out = "(on a slow or busy machine, raise PARLANCE_WORKER_START_TIMEOUT_S)"
        return f"it had not loaded b within {0.02 * 2**number:g} s {way_out}"

    async def scene() -> None:
        models = {"b@1": m.Load("b@1", "/b"), "a@1": m.Load("a@1", "/a")}
        supervisor = a_supervisor(
            [], start_timeout_s=0.02, to_load=lambda: models, on_failure=lambda name, reason: pytest.fail(reason)
        )
        device = supervisor.devices["cpu"]
        for number in range(5):
            device.pause_s = 0.001
            if not number:
                supervisor.spawn_all()
            while len(fake.started) <= number or not fake.started[number].sent:
                await asyncio.sleep(0.001)
            process = fake.started[number]
            process.says(m.Started("cpu"))
            if number >= 2:
                assert [load.name for load in process.sent] == ["a@1", "b@1"], "the slow one comes last"
                process.says(m.Loaded("a@1", 0.01))
            while not process.killed:
                await asyncio.sleep(0.001)
            times = f" {number + 1} times in a row, last" if number else ""
            assert supervisor.problems() == [
                f"cpu is restarting; its process was ended{times} because {clause(number)}."
            ]
        while len(fake.started) <= 5 or not fake.started[5].sent:
            await asyncio.sleep(0.001)
        fake.started[5].says(m.Started("cpu"))
        assert supervisor.problems()[0].endswith(f"because {clause(4)}."), "known while the next process starts"
        fake.started[5].says(m.Loaded("a@1", 0.01), m.Loaded("b@1", 0.04))
        assert device.state == "ready"
        fake.started[5].on_death("cpu")
        assert "START_TIMEOUT" not in supervisor.problems()[0], "this one ended by itself"
        await supervisor.stop()

    asyncio.run(scene())
    assert f"the process of cpu is ended because {clause(0)}" in caplog.text


def test_device_that_can_load_nothing_leaves_no_model_out(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        models = {"a@1": m.Load("a@1", "/a"), "b@1": m.Load("b@1", "/b")}
        supervisor = a_supervisor([], to_load=lambda: models, on_failure=lambda name, reason: pytest.fail(reason))
        for number in range(8):
            supervisor.devices["cpu"].pause_s = 0.001
            if not number:
                supervisor.spawn_all()
            while len(fake.started) <= number:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0)
            fake.started[number].on_death("cpu")
        assert not supervisor.devices["cpu"].left_out
        await supervisor.stop()

    asyncio.run(scene())


def test_a_model_that_one_device_cannot_load_stays_on_the_others(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        gone: list[tuple[str, str]] = []
        models = {"a@1": m.Load("a@1", "/a"), "b@1": m.Load("b@1", "/b")}
        supervisor = a_supervisor(
            [], ("cuda:0", "cpu"), to_load=lambda: models, on_failure=lambda name, why: gone.append((name, why))
        )
        supervisor.spawn_all()
        await asyncio.sleep(0)
        cuda, cpu = fake.started
        cuda.says(m.Loaded("a@1", 0.1), m.LoadFailed("b@1", "No kernel for it."))
        cpu.says(m.Loaded("a@1", 0.1), m.Loaded("b@1", 0.1))
        assert [device.state for device in supervisor.devices.values()] == ["ready", "ready"]
        assert supervisor.least_busy("b@1") is supervisor.devices["cpu"]
        assert supervisor.problems() == ["cuda:0 does not have b: No kernel for it."]
        assert gone == []
        await supervisor.stop()

    asyncio.run(scene())


def test_a_model_that_no_device_can_load_is_given_up(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        gone: list[tuple[str, str]] = []
        supervisor = a_supervisor([], ("cuda:0", "cpu"), on_failure=lambda name, why: gone.append((name, why)))
        supervisor.spawn_all()
        await asyncio.sleep(0)
        for process in fake.started:
            assert gone == []
            process.says(m.LoadFailed("a", "Torn."))
        assert gone == [("a", "Torn.")]
        await supervisor.stop()

    asyncio.run(scene())


def test_worker_started_during_a_load_gets_the_model_once(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        supervisor = a_supervisor([], ("cpu", "cuda:0"))
        supervisor.spawn_all()
        await asyncio.sleep(0)
        cpu, late = fake.started
        cpu.says(m.Loaded("a", 0.1))  # the other one still loads a
        loading = asyncio.create_task(supervisor.load(m.Load("b@2", "/b")))
        await asyncio.sleep(0)
        supervisor.devices["cuda:0"].pause_s = 0.001
        late.on_death("cuda:0")
        while len(fake.started) < 3:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0)
        assert [message.name for message in fake.started[2].sent] == ["a", "b@2"]
        cpu.says(m.Loaded("b@2", 0.1))
        await loading  # a device that was not ready at the start of the load is not waited for
        supervisor.unload("b@2")
        fake.started[2].says(m.Loaded("a", 0.1), m.Loaded("b@2", 0.1))  # crosses with the unloading
        assert [device.loaded for device in supervisor.devices.values()] == [{"a"}, {"a"}]
        assert fake.started[2].sent[-1] == m.Unload("b@2")
        await supervisor.stop()

    asyncio.run(scene())


def test_a_version_that_one_device_refuses_is_taken_back_from_all(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        gone: list[str] = []
        supervisor = a_supervisor([], ("cpu", "cuda:0"), on_failure=lambda name, why: gone.append(name))
        supervisor.spawn_all()
        await asyncio.sleep(0)
        for process in fake.started:
            process.says(m.Loaded("a", 0.1))
        loading = asyncio.create_task(supervisor.load(m.Load("b@2", "/b")))
        await asyncio.sleep(0)
        fake.started[0].says(m.Loaded("b@2", 0.1))
        fake.started[1].says(m.LoadFailed("b@2", "No kernel for it."))
        with pytest.raises(CheckpointRefused, match="No kernel for it"):
            await loading
        supervisor.unload("b@2")
        assert [process.sent[-1] for process in fake.started] == [m.Unload("b@2")] * 2
        assert [device.loaded for device in supervisor.devices.values()] == [{"a"}, {"a"}]
        assert (gone, supervisor.problems()) == ([], [])
        await supervisor.stop()

    asyncio.run(scene())


def test_first_load_starts_the_processes(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        supervisor = a_supervisor([], to_load=dict)
        supervisor.leave_idle()
        assert not supervisor.is_loading("b@1")
        loading = asyncio.create_task(supervisor.load(m.Load("b@1", "/b")))
        while not fake.started or not fake.started[0].sent:
            await asyncio.sleep(0)
        assert supervisor.is_loading("b@1")
        fake.started[0].says(m.Started("cpu"), m.Loaded("b@1", 0.1))
        await loading
        assert not supervisor.is_loading("b@1")
        assert (supervisor.devices["cpu"].state, supervisor.devices["cpu"].loaded) == ("ready", {"b@1"})
        await supervisor.stop()

    asyncio.run(scene())
