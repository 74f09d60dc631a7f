"""Made-up lives of a dispatcher over scripted devices that die, come back and answer in any order: each request has one
end, is sent to a second device once at most, and leaves no work on the books."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from app import errors
from app.engine.output.output_processor import OutputProcessor
from app.engine.protocol import messages as m
from tests.app.engine.dispatch.test_dispatcher import FakeDevice, Listener, decode, scripted_dispatcher
from tests.combinations import slow_but

NAMES = ("one", "two", "three")
choices = st.integers(0, 99)


@dataclass
class Asked:
    """A request without an end. sent: the id and the device of each time that it was sent."""

    task: asyncio.Task[Any]
    work: int
    listener: Listener | None
    sent: list[tuple[int, FakeDevice]]


class DispatcherMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dispatcher, self.devices, self.each = scripted_dispatcher(*NAMES)
        self.number, self.live, self.over = 0, dict[int, Asked](), list[int]()

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(6):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def sent(self, number: int) -> list[tuple[int, FakeDevice]]:
        """In the order of ids, which are never given twice."""
        decodes = [(each, device) for device in self.each for each in device.sent if isinstance(each, m.Decode)]
        assert len({message.id for message, _ in decodes}) == len(decodes)
        return sorted(((d.id, device) for d, device in decodes if d.source == [number]), key=lambda pair: pair[0])

    def alive(self) -> list[FakeDevice]:
        return [device for device in self.each if device.process is not None]

    @rule(work=st.integers(1, 50), shown=st.sampled_from([None, False, True]))
    def ask(self, work: int, shown: bool | None) -> None:
        """shown: whether a part of the stream has left the server; None: no stream."""
        self.number += 1
        listener = None if shown is None else Listener(shown=shown)
        message, output = decode(source=[self.number]), cast(OutputProcessor | None, listener)
        least = min((device.outstanding_tokens for device in self.alive()), default=0)
        idlest = [device for device in self.alive() if device.outstanding_tokens == least]
        task = self.loop.create_task(self.dispatcher.ask(message, work, output))
        self.settle()
        sent = self.sent(self.number)
        if not idlest:
            assert isinstance(task.exception(), errors.EngineUnavailable)
            assert not sent
        else:
            ((_, device),) = sent
            assert device in idlest
            self.live[self.number] = Asked(task, work, listener, sent)

    def pick(self, which: int) -> tuple[int, Asked]:
        number = sorted(self.live)[which % len(self.live)]
        return number, self.live[number]

    def end(self, number: int, *, cancelled: bool = False) -> Any:
        """The result or the error of a request; cancelled: the device is told."""
        asked = self.live.pop(number)
        assert asked.task.done()
        request, device = asked.sent[-1]
        assert (m.Cancel(request) in device.sent) == cancelled
        self.over += [request for request, _ in asked.sent]
        return asked.task.exception() or asked.task.result()

    @rule(which=choices)
    @precondition(lambda self: self.live)
    def answer(self, which: int) -> None:
        number, asked = self.pick(which)
        answer = m.Finished(asked.sent[-1][0], [])
        self.dispatcher.reply(answer)
        self.dispatcher.reply(m.Failed(answer.id, "engine_failed", "too late"))
        self.settle()
        assert self.end(number) == answer

    @rule(which=choices, code=st.sampled_from(["invalid_request", "overloaded", "engine_failed", "no such code"]))
    @precondition(lambda self: self.live)
    def fail(self, which: int, code: str) -> None:
        number, asked = self.pick(which)
        self.dispatcher.reply(m.Failed(asked.sent[-1][0], code, "no luck"))
        self.dispatcher.reply(m.Finished(asked.sent[-1][0], []))
        self.settle()
        error = self.end(number, cancelled=True)
        assert isinstance(error, errors.EngineError)
        assert error.code == ("engine_failed" if code == "no such code" else code)

    @rule(which=choices, token=st.sampled_from([5, 6, 7, 99]))
    @precondition(lambda self: self.live)
    def stream(self, which: int, token: int) -> None:
        """7 ends a text by its stop string; 99 cannot be taken."""
        number, asked = self.pick(which)
        self.dispatcher.reply(m.Tokens({asked.sent[-1][0]: [token]}))
        self.settle()
        if asked.listener is not None and token == 7:
            assert self.end(number, cancelled=True) is None
        elif asked.listener is not None and token == 99:
            assert isinstance(self.end(number, cancelled=True), errors.EngineFailed)
        else:
            assert not asked.task.done()

    @rule(which=choices, crosses=st.booleans())
    @precondition(lambda self: self.live)
    def cancel(self, which: int, crosses: bool) -> None:
        number, asked = self.pick(which)
        asked.task.cancel()
        if crosses:
            self.dispatcher.reply(m.Finished(asked.sent[-1][0], []))
        self.settle()
        assert asked.task.cancelled()
        request, device = asked.sent[-1]
        assert m.Cancel(request) in device.sent
        del self.live[number]
        self.over.append(request)

    @rule(which=choices)
    @precondition(lambda self: self.over)
    def speak_of_the_past(self, which: int) -> None:
        request = self.over[which % len(self.over)]
        for message in (m.Tokens({request: [5]}), m.Finished(request, []), m.Failed(request, "engine_failed", "late")):
            self.dispatcher.reply(message)
        self.settle()

    @rule(which=choices)
    @precondition(lambda self: self.alive())
    def die(self, which: int) -> None:
        device = self.alive()[which % len(self.alive())]
        here = [number for number, asked in self.live.items() if asked.sent[-1][1] is device]
        self.devices.die(self.dispatcher, device)
        self.settle()
        for number in here:
            asked = self.live[number]
            shown = asked.listener is not None and asked.listener.shown
            if self.alive() and len(asked.sent) == 1 and not shown:
                sent = self.sent(number)
                assert sent[:-1] == asked.sent
                assert sent[-1][1] in self.alive()
                assert not asked.task.done()
                self.over.append(asked.sent[0][0])
                asked.sent = sent
            else:
                assert isinstance(self.end(number), errors.EngineUnavailable)

    @rule(which=choices)
    @precondition(lambda self: len(self.alive()) < len(self.each))
    def come_back(self, which: int) -> None:
        dead = [device for device in self.each if device.process is None]
        device = dead[which % len(dead)]
        device.process = device

    @invariant()
    def books_hold_what_is_under_way(self) -> None:
        assert not any(asked.task.done() for asked in self.live.values())
        assert self.dispatcher.pending.keys() == {asked.sent[-1][0] for asked in self.live.values()}
        for device in self.each:
            work = [asked.work for asked in self.live.values() if asked.sent[-1][1] is device]
            assert device.outstanding_tokens == sum(work)
        for number, asked in self.live.items():
            assert self.sent(number) == asked.sent

    def teardown(self) -> None:
        failed = sys.exc_info()[0] is not None  # of a life that has failed the end says nothing
        for asked in self.live.values():
            asked.task.cancel()
        self.settle()
        self.loop.close()
        assert failed or not self.dispatcher.pending
        assert failed or all(device.outstanding_tokens == 0 for device in self.each)


@pytest.mark.parametrize("lives", slow_but([25, 150], 25))
def test_made_up_lives_of_a_dispatcher(lives: int) -> None:
    run_state_machine_as_test(
        DispatcherMachine,
        settings=settings(max_examples=lives, stateful_step_count=30, deadline=None, derandomize=True, database=None),
    )
