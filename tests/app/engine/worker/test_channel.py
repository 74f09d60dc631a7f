"""The device process's end of the socket."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import LoadResult
from app.engine.worker.worker_main import Channel
from models.child_process import HEADER, MAX_FRAME_BYTES
from tests.app.engine.frames import framed
from tests.request_builders import decode_message

TWO = [m.Cancel(7), m.Cancel(8)]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, Channel(m.to_device, theirs)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ConnectionError),
        (framed([m.Cancel(1)])[:3], ConnectionError),
        (framed([m.Cancel(1)])[:-1], ConnectionError),
        (HEADER.pack(MAX_FRAME_BYTES + 1), ValueError),
        (HEADER.pack(1) + b"\xc1", msgspec.DecodeError),
        (framed([m.Started("cpu")]), msgspec.ValidationError),
    ],
)
def test_complete_messages_are_received_before_a_broken_or_closed_stream_raises(
    ends: tuple[socket.socket, Channel], data: bytes, error: type[Exception]
) -> None:
    ours, channel = ends
    ours.sendall(framed(TWO))
    assert channel.receive(None) == TWO
    assert channel.receive(0) == []
    ours.sendall(data)
    ours.close()
    with pytest.raises(error):
        channel.receive(None)


def test_last_messages_come_before_the_end_of_the_connection(ends: tuple[socket.socket, Channel]) -> None:
    ours, channel = ends
    ours.sendall(framed(TWO))
    ours.close()
    assert channel.receive(None) == TWO
    with pytest.raises(ConnectionError):
        channel.receive(0)


def test_parts_of_a_message_are_put_together(ends: tuple[socket.socket, Channel]) -> None:
    ours, channel = ends
    data = framed([decode_message(1, "a", list(range(70_000)), [2], 1.0, 5)]) + framed(TWO)
    sending = threading.Thread(target=ours.sendall, args=(data,))
    sending.start()
    received = list[object]()
    while len(received) < 3:
        received += channel.receive(None)
    sending.join(10)
    assert received[1:] == TWO
    assert isinstance(received[0], m.Decode)
    assert received[0].source == list(range(70_000))


def test_result_of_another_thread_wakes_the_loop(ends: tuple[socket.socket, Channel]) -> None:
    _, channel = ends
    result = LoadResult(m.Load("a", "b"), 0.0)
    timer = threading.Timer(0.02, channel.put, (result,))
    timer.start()
    assert channel.receive(None) == [result]
    timer.join()
    began = time.monotonic()
    assert channel.receive(0.03) == []  # the wake-up byte was read
    assert time.monotonic() - began > 0.02


def test_end_of_the_front_end_ends_the_process_in_the_middle_of_a_step(
    ends: tuple[socket.socket, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, channel = ends
    ended = threading.Event()
    monkeypatch.setattr(os, "_exit", lambda status: ended.set())
    channel.exit_with_parent()
    ours.sendall(framed(TWO))  # which is never read
    assert not ended.wait(0.05)
    ours.close()
    assert ended.wait(10)
