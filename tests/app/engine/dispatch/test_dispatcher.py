"""The dispatcher without any device process: sent messages are kept, replies are made up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from app import errors
from app.engine.admission import ORIGIN, RequestOrigin
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.dispatch.supervisor import Supervisor
from app.engine.metrics import Metrics
from app.engine.output.output_processor import OutputProcessor
from app.engine.protocol import messages as m
from tests.request_builders import decode_message


class FakeDevice:
    """A device that is its own process."""

    def __init__(self, name: str = "cpu") -> None:
        self.name, self.outstanding_tokens = name, 0
        self.process: FakeDevice | None = self
        self.sent: list[Any] = []

    def send(self, messages: list[Any]) -> None:
        self.sent += messages

    def requests(self) -> list[int]:
        return [message.id for message in self.sent if isinstance(message, m.Decode)]


class FakeDevices:
    def __init__(self, *devices: FakeDevice) -> None:
        self.devices = list(devices)
        self.loading = set[str]()

    def least_busy(self, model: str) -> FakeDevice | None:
        able = [device for device in self.devices if device.process is not None]
        return min(able, key=lambda device: device.outstanding_tokens, default=None)

    def is_loading(self, model: str) -> bool:
        return model in self.loading

    def die(self, dispatcher: Dispatcher, device: FakeDevice) -> None:
        device.process, device.outstanding_tokens = None, 0
        dispatcher.device_died(device.name)


class Listener:
    """Refuses tokens above 90. shown: a part of the text has been streamed already."""

    def __init__(self, *, shown: bool = False) -> None:
        self.tokens: list[int] = []
        self.shown = shown

    def feed(self, tokens: list[int], nats: object, top: object) -> bool:
        for token in tokens:
            if token > 90:
                raise IndexError(f"There is no token {token}.")
            self.tokens.append(token)
            if token == 7:
                return True
        return False

    def restart(self) -> bool:
        self.tokens.clear()
        return not self.shown


def scripted_dispatcher(*names: str) -> tuple[Dispatcher, FakeDevices, Sequence[FakeDevice]]:
    devices = FakeDevices(*map(FakeDevice, names or ("cpu",)))
    return Dispatcher(cast(Supervisor, devices), 5.0, Metrics(), lambda model: 9), devices, devices.devices


def decode(**change: Any) -> m.Decode:
    return decode_message(
        **{"number": 0, "model": "a", "source": [5], "prefix": [2], "deadline": 0.0, "max_new_tokens": 4, **change}
    )


async def ask(dispatcher: Dispatcher, heard: Listener | None = None, work: int = 3) -> asyncio.Task[Any]:
    """Sends a request and waits until it is dispatched."""
    task = asyncio.create_task(dispatcher.ask(decode(), work, cast(OutputProcessor | None, heard)))
    await asyncio.sleep(0)
    return task


def test_a_token_that_its_listener_cannot_take_fails_that_request_alone() -> None:
    async def scene() -> None:
        dispatcher, _, (device,) = scripted_dispatcher()
        bad, good = await ask(dispatcher, Listener()), await ask(dispatcher)
        dispatcher.reply(m.Tokens({1: [99], 2: [99]}))
        dispatcher.reply(m.Finished(2, []))
        with pytest.raises(errors.EngineFailed, match="There is no token 99"):
            await bad
        assert await good == m.Finished(2, [])
        assert m.Cancel(1) in device.sent  # the listener has gone
        assert (device.outstanding_tokens, len(dispatcher.pending)) == (0, 0)

    asyncio.run(scene())


def test_satisfied_request_frees_its_slots() -> None:
    async def scene() -> None:
        dispatcher, _, (device,) = scripted_dispatcher()
        heard = Listener()
        task = await ask(dispatcher, heard)
        dispatcher.reply(m.Tokens({1: [5]}))
        dispatcher.reply(m.Tokens({1: [7, 8]}))
        dispatcher.reply(m.Finished(1, []))
        assert await task is None
        assert heard.tokens == [5, 7]
        assert device.sent[-1] == m.Cancel(1)

    asyncio.run(scene())


def test_replies_to_cancelled_requests_are_dropped() -> None:
    async def scene() -> None:
        dispatcher, _, (device,) = scripted_dispatcher()
        task = await ask(dispatcher)
        task.cancel()
        dispatcher.reply(m.Finished(1, []))  # crosses with the cancellation
        with pytest.raises(asyncio.CancelledError):
            await task
        for late in (m.Finished(1, []), m.Failed(1, "engine_failed", "late"), m.Tokens({1: [5]})):
            dispatcher.reply(late)
        assert device.requests() == [1]
        assert device.sent[-1] == m.Cancel(1)
        assert device.outstanding_tokens == 0

    asyncio.run(scene())


def test_requests_go_to_the_least_busy_device() -> None:
    async def scene() -> None:
        dispatcher, _, (one, two) = scripted_dispatcher("one", "two")
        tasks = [await ask(dispatcher, work=work) for work in (500, 20, 30, 5)]
        assert (one.requests(), two.requests()) == ([1], [2, 3, 4])
        assert (one.outstanding_tokens, two.outstanding_tokens) == (500, 55)
        for request, task in enumerate(tasks, start=1):
            dispatcher.reply(m.Finished(request, []))
            await task
        assert (one.outstanding_tokens, two.outstanding_tokens) == (0, 0)

    asyncio.run(scene())


def test_request_without_output_is_retried_once_on_another_device() -> None:
    async def scene() -> None:
        dispatcher, devices, (one, two) = scripted_dispatcher("one", "two")
        heard = Listener()
        task = await ask(dispatcher, heard)
        dispatcher.reply(m.Tokens({1: [5]}))
        devices.die(dispatcher, one)
        await asyncio.sleep(0)
        assert two.requests() == [2]
        assert (one.outstanding_tokens, two.outstanding_tokens) == (0, 3)
        dispatcher.reply(m.Tokens({2: [6]}))
        assert heard.tokens == [6]
        one.process = one  # back again, but this request has had its second chance
        devices.die(dispatcher, two)
        with pytest.raises(errors.EngineUnavailable, match="process ended; please try again"):
            await task
        assert one.requests() == [1]
        assert not dispatcher.pending

    asyncio.run(scene())


def test_request_with_output_fails_with_its_worker() -> None:
    async def scene() -> None:
        dispatcher, devices, (one, two) = scripted_dispatcher("one", "two")
        task = await ask(dispatcher, Listener(shown=True))
        devices.die(dispatcher, one)
        with pytest.raises(errors.EngineUnavailable, match="please try again"):
            await task
        assert two.requests() == []

    asyncio.run(scene())


def test_without_another_device_requests_fail_at_once() -> None:
    async def scene() -> None:
        dispatcher, devices, (one,) = scripted_dispatcher()
        task = await ask(dispatcher)
        devices.die(dispatcher, one)
        with pytest.raises(errors.EngineUnavailable, match="process ended; please try again"):
            await task
        for loading, reason in ((set[str](), "engine_unavailable"), ({"a"}, "loading")):
            devices.loading = loading
            with pytest.raises(errors.EngineUnavailable, match="No device has a ready right now") as refused:
                await (await ask(dispatcher))
            assert refused.value.reason == reason

    asyncio.run(scene())


def test_a_device_without_a_slot_in_time_says_when_to_try_again() -> None:
    async def scene() -> None:
        dispatcher, _, _ = scripted_dispatcher()
        task = await ask(dispatcher)
        dispatcher.reply(m.Failed(1, "overloaded", "The queue did not move in time; try again later."))
        with pytest.raises(errors.Overloaded, match="did not move") as refused:
            await task
        assert refused.value.retry_after_s == 9

    asyncio.run(scene())


def test_draining_waits_for_follow_up_requests() -> None:
    async def scene() -> None:
        dispatcher, _, _ = scripted_dispatcher()

        async def twice() -> list[Any]:
            return [await dispatcher.ask(decode(), 3), await dispatcher.ask(decode(), 3)]

        task = asyncio.create_task(twice())
        await asyncio.sleep(0.01)
        draining = asyncio.create_task(dispatcher.drain(5.0))
        await asyncio.sleep(0.01)
        dispatcher.reply(m.Finished(1, []))
        await asyncio.sleep(0.01)
        dispatcher.reply(m.Finished(2, []))
        await draining
        assert await task == [m.Finished(1, []), m.Finished(2, [])]

    asyncio.run(scene())


def test_draining_ends_and_fails_the_rest_as_retryable() -> None:
    async def scene() -> None:
        dispatcher, _, _ = scripted_dispatcher()
        task = await ask(dispatcher)
        await dispatcher.drain(0.01)
        with pytest.raises(errors.EngineUnavailable, match="shutting down"):
            await task

    asyncio.run(scene())


def test_messages_of_one_http_request_share_its_deadline() -> None:
    """A batch, or a pivot, asks several times: each has what the others have left of the time."""

    async def scene() -> None:
        dispatcher, _, (device,) = scripted_dispatcher()
        end = time.monotonic() + 0.05
        ORIGIN.set(RequestOrigin("a", end))
        asked = [asyncio.create_task(dispatcher.ask(decode(), 1)) for _ in range(3)]
        with pytest.raises(errors.DeadlineExceeded):
            await asked[0]
        await asyncio.gather(*asked, return_exceptions=True)
        with pytest.raises(errors.DeadlineExceeded):
            await dispatcher.ask(decode(), 1)
        decodes = [message for message in device.sent if isinstance(message, m.Decode)]
        assert {message.deadline for message in decodes} == {end}
        assert len([message for message in device.sent if isinstance(message, m.Cancel)]) == len(decodes)

    asyncio.run(asyncio.wait_for(scene(), 5))
