"""The main loop of a device process."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from app.engine.protocol import messages as m
from app.engine.worker.worker_main import Channel, run
from tests.app.engine.frames import framed


class FakeScheduler:
    """Has work when the test says so; a step takes as long as the test sets."""

    def __init__(self) -> None:
        self.busy, self.handled, self.may_step = False, list[Any](), threading.Event()
        self.may_step.set()

    def handle(self, message: Any) -> list[Any]:
        self.handled.append(message)
        return []

    def step(self) -> list[Any]:
        assert self.may_step.wait(10)
        return []

    def statistics(self) -> list[Any]:
        return []


class SpyChannel(Channel):
    """Records sent messages."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(m.to_device, connection)
        self.sent = list[Any]()

    def send(self, messages: list[Any]) -> None:
        self.sent += messages


@pytest.mark.parametrize("busy", [False, True])
def test_the_main_loop_beats_idle_or_busy_but_not_while_it_hangs(busy: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel, scheduler = SpyChannel(theirs), FakeScheduler()
        scheduler.busy = busy
        loop = threading.Thread(target=run, args=(channel, scheduler, [m.Cancel(1)], 0.005))
        loop.start()
        end = time.monotonic() + 10
        while len(channel.sent) < 5:
            assert time.monotonic() < end, "no beats"
            time.sleep(0.001)
        assert all(message == m.Heartbeat([]) for message in channel.sent)
        scheduler.may_step.clear()
        time.sleep(0.02)
        count = len(channel.sent)
        time.sleep(0.05)
        assert len(channel.sent) == count
        scheduler.may_step.set()
        ours.sendall(framed([m.Stop()]))
        loop.join(10)
        assert not loop.is_alive()
        assert scheduler.handled == [m.Cancel(1)]


def test_an_idle_loop_beats_in_time_and_not_all_the_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = SpyChannel(theirs)
        loop = threading.Thread(target=run, args=(channel, FakeScheduler(), [], 60.0))
        loop.start()
        time.sleep(0.05)
        ours.sendall(framed([m.Stop()]))  # heard at once, long before the next beat
        loop.join(10)
        assert not loop.is_alive()
        assert len(channel.sent) == 1
