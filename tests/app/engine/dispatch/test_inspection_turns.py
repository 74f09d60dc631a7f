"""Inspections of a machine take turns, whatever their clients and devices do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from app import errors
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.dispatch.inspection_turns import MAX_WAITING, InspectionTurns
from app.engine.dispatch.supervisor import Supervisor
from app.engine.metrics import Metrics
from app.engine.protocol import messages as m
from tests.app.engine.dispatch.test_dispatcher import FakeDevice, FakeDevices
from tests.app.engine.fake_clock import Clock
from tests.request_builders import decode_message

PAIR = m.TokenPair([5, 3], [2, 4, 3], 1, [0, None], [0, None])


class Machine:
    """A dispatcher over two devices that answer when the test says so."""

    def __init__(self, at_once: int = 1, timeout_s: float = 5.0, idle_threads: int = 0) -> None:
        self.one, self.two = FakeDevice("cpu:0"), FakeDevice("cpu:1")
        self.devices = FakeDevices(self.one, self.two)
        self.turns, self.metrics = InspectionTurns(at_once), Metrics()
        self.dispatcher = Dispatcher(
            cast(Supervisor, self.devices), timeout_s, self.metrics, turns=self.turns, idle_threads=idle_threads
        )

    def ask(self, message: Any, work: int = 3) -> asyncio.Task[Any]:
        return asyncio.create_task(self.dispatcher.ask(message, work))

    def sent(self) -> list[int]:
        """The inspections that devices have got, of both."""
        return sorted(x.id for device in (self.one, self.two) for x in device.sent if isinstance(x, m.Inspection))

    def holder(self, message: int) -> FakeDevice:
        return next(d for d in (self.one, self.two) if any(x.id == message for x in d.sent if isinstance(x, m.Request)))


def score(number: int = 0) -> m.ScoreTokens:
    return m.ScoreTokens(number, "a", [], [7, 8], 0, True)


def scored(number: int) -> m.TokensScored:
    nothing = m.FloatTensor([0], b"")
    return m.TokensScored(number, m.ExpectedTokens(nothing, [], nothing, [], nothing))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def play(scene: Callable[[Machine], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        await asyncio.wait_for(scene(Machine(**options)), 20)

    asyncio.run(run())


def test_one_inspection_at_a_time_on_all_cpu_devices_in_order() -> None:
    async def scene(machine: Machine) -> None:
        tasks = [machine.ask(score()) for _ in range(4)]
        decoding = machine.ask(decode_message(0, "a", [5], [2], 0.0, 4))
        for number in range(4):
            await settle()
            inspections = machine.sent()
            assert len(inspections) == number + 1
            assert (machine.turns.running, machine.turns.waiting) == (1, 3 - number)
            machine.dispatcher.reply(scored(inspections[-1]))
            assert (await tasks[number]).id == inspections[-1]
        assert machine.turns.running == 0
        decoding.cancel()
        await asyncio.gather(decoding, return_exceptions=True)

    play(scene)


def test_as_many_inspections_at_a_time_as_there_are_gpus() -> None:
    async def scene(machine: Machine) -> None:
        tasks = [machine.ask(score()) for _ in range(3)]
        await settle()
        assert [len(device.sent) for device in (machine.one, machine.two)] == [1, 1]
        machine.dispatcher.reply(scored(machine.sent()[0]))
        await settle()
        assert len(machine.sent()) == 3
        for number in machine.sent()[1:]:
            machine.dispatcher.reply(scored(number))
        await asyncio.gather(*tasks)

    play(scene, at_once=2)


def test_the_turn_of_a_cancelled_inspection_ends_with_the_devices_answer() -> None:
    async def scene(machine: Machine) -> None:
        first, second, third = (machine.ask(score()) for _ in range(3))
        await settle()
        (computing,) = machine.sent()
        first.cancel()
        second.cancel()  # it waits
        await settle()
        assert machine.holder(computing).sent[-1] == m.Cancel(computing)
        assert (machine.sent(), machine.turns.running, machine.turns.waiting) == ([computing], 1, 1)
        machine.dispatcher.reply(m.Failed(computing, "cancelled", "The request was cancelled."))
        await settle()
        assert len(machine.sent()) == 2
        machine.dispatcher.reply(scored(machine.sent()[-1]))
        await third
        assert machine.turns.running == 0

    play(scene)


def test_a_client_that_leaves_as_its_turn_comes_passes_it_on() -> None:
    async def scene(machine: Machine) -> None:
        first, second, third = (machine.ask(score()) for _ in range(3))
        await settle()
        machine.dispatcher.reply(scored(machine.sent()[0]))
        second.cancel()  # its turn has been granted, and its task has not run since
        await settle()
        assert len(machine.sent()) == 2
        machine.dispatcher.reply(scored(machine.sent()[-1]))
        assert (await first).id != (await third).id
        assert machine.turns.running == 0

    play(scene)


def test_a_device_that_dies_in_its_turn_blocks_no_other() -> None:
    async def scene(machine: Machine) -> None:
        first, second = machine.ask(score()), machine.ask(score())
        await settle()
        (number,) = machine.sent()
        lost = machine.holder(number)
        first.cancel()
        await settle()
        machine.devices.die(machine.dispatcher, lost)
        await settle()
        assert machine.turns.running == 1
        machine.dispatcher.reply(scored(machine.sent()[-1]))
        await second
        third = machine.ask(score())
        await settle()
        machine.devices.die(machine.dispatcher, machine.holder(machine.sent()[-1]))
        with pytest.raises(errors.EngineUnavailable):
            await third
        with pytest.raises(errors.EngineUnavailable, match="No device has a ready"):
            await machine.ask(score())
        assert (machine.turns.running, machine.turns.waiting) == (0, 0)

    play(scene)


def test_an_inspection_that_waits_too_long_for_its_turn_is_late() -> None:
    async def scene(machine: Machine) -> None:
        tasks = [machine.ask(score()) for _ in range(2)]
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, errors.DeadlineExceeded)
        assert (len(machine.sent()), machine.turns.waiting) == (1, 0)

    play(scene, timeout_s=0.05)


def test_alignments_pass_all_but_the_first_that_waits() -> None:
    async def scene(machine: Machine) -> None:
        tasks = [machine.ask(score()) for _ in range(4)]
        tasks.append(machine.ask(m.AlignPairs(0, "a", [PAIR])))
        kinds = []
        for _ in tasks:
            await settle()
            number = machine.sent()[-1]
            kinds.append(type(machine.holder(number).sent[-1]))
            answer = m.PairsAligned(number, [[]], [[]]) if kinds[-1] is m.AlignPairs else scored(number)
            machine.dispatcher.reply(answer)
        await asyncio.gather(*tasks)
        assert kinds == [m.ScoreTokens, m.ScoreTokens, m.AlignPairs, m.ScoreTokens, m.ScoreTokens]

    play(scene)


def test_too_many_waiting_inspections_are_refused_and_alignments_are_not(clock: Clock) -> None:
    async def scene(machine: Machine) -> None:
        first = machine.ask(score())
        await settle()
        clock.now += 0.5
        machine.dispatcher.reply(scored(machine.sent()[-1]))
        await first  # a turn takes half a second
        machine.turns.max_wait_s = 9.9
        tasks = [machine.ask(score()) for _ in range(20)]
        await settle()
        assert machine.turns.waiting == 19
        with pytest.raises(errors.Overloaded) as refused:
            await machine.ask(score())
        assert refused.value.message == "Too many inspections are waiting; try again in 10 seconds."
        assert (refused.value.retry_after_s, refused.value.reason) == (10, "overloaded_inspections")
        machine.turns.max_wait_s = 1000.0
        tasks += [machine.ask(score()) for _ in range(MAX_WAITING - 19)]
        await settle()
        with pytest.raises(errors.Overloaded, match="try again in 33 seconds"):
            await machine.ask(score())
        tasks.append(machine.ask(m.AlignPairs(0, "a", [PAIR])))
        await settle()
        assert machine.turns.waiting == MAX_WAITING + 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert machine.turns.waiting == 0

    play(scene, timeout_s=500.0)


@pytest.mark.parametrize(("decoded_s_ago", "threads"), [(None, 4), (0.5, 0), (2.0, 4)])
def test_an_inspection_gets_all_cores_of_an_idle_machine(
    clock: Clock, decoded_s_ago: float | None, threads: int
) -> None:
    async def scene(machine: Machine) -> None:
        if decoded_s_ago is not None:
            decoding = machine.ask(decode_message(0, "a", [5], [2], 0.0, 4))
            await settle()
            assert (await inspected(machine, score())).threads == 0
            assert isinstance(machine.one.sent[0], m.Decode)
            machine.dispatcher.reply(m.Finished(machine.one.sent[0].id, []))
            await decoding
            clock.now += decoded_s_ago
        assert (await inspected(machine, score())).threads == threads
        assert (await inspected(machine, m.AlignPairs(0, "a", [PAIR]))).threads == 0  # part of a translation

    async def inspected(machine: Machine, message: Any) -> Any:
        task = machine.ask(message)
        await settle()
        number = machine.sent()[-1]
        sent = next(x for x in machine.holder(number).sent if isinstance(x, m.Inspection) and x.id == number)
        machine.dispatcher.reply(m.Failed(number, "engine_failed", "on purpose"))
        await asyncio.gather(task, return_exceptions=True)
        return sent

    play(scene, idle_threads=4)


def test_a_drain_waits_for_inspections_that_wait_and_then_fails_them() -> None:
    async def scene(machine: Machine) -> None:
        first, second, third = (machine.ask(score()) for _ in range(3))
        await settle()
        draining = asyncio.create_task(machine.dispatcher.drain(0.2))
        await settle()
        for task in (first, second):
            machine.dispatcher.reply(scored(machine.sent()[-1]))
            await task
        fourth = machine.ask(score())
        await draining
        for task in (third, fourth):
            with pytest.raises(errors.EngineUnavailable, match="shutting down"):
                await task
        assert machine.turns.waiting == 0

    play(scene)
