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
from app.engine.worker.channel import Channel
from app.engine.worker.model_loader import LoadResult

TWO = [m.Cancel(7), m.Cancel(8)]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inbox = Channel(theirs)
        yield ours, inbox
        inbox.close()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ConnectionError),
        (m.frame([m.Cancel(1)])[:3], ConnectionError),
        (m.frame([m.Cancel(1)])[:-1], ConnectionError),
        (m.HEADER.pack(m.MAX_FRAME_BYTES + 1), ValueError),
        (m.HEADER.pack(1) + b"\xc1", msgspec.DecodeError),
        (m.frame([m.Started("cpu")]), msgspec.ValidationError),
    ],
)
def test_what_was_said_is_heard_and_then_that_nothing_more_can_be(
    ends: tuple[socket.socket, Channel], data: bytes, error: type[Exception]
) -> None:
    ours, inbox = ends
    ours.sendall(m.frame(TWO))
    assert inbox.take(None) == TWO
    assert inbox.take(0) == []
    ours.sendall(data)
    ours.close()
    with pytest.raises(error):
        inbox.take(None)


def test_the_last_words_come_before_the_end(ends: tuple[socket.socket, Channel]) -> None:
    ours, inbox = ends
    ours.sendall(m.frame(TWO))
    ours.close()
    assert inbox.take(None) == TWO
    with pytest.raises(ConnectionError):
        inbox.take(0)


def test_parts_of_a_message_are_put_together(ends: tuple[socket.socket, Channel]) -> None:
    ours, inbox = ends
    data = m.frame([m.Decode(1, "a", list(range(70_000)), [2], 1.0, 5)]) + m.frame(TWO)
    sending = threading.Thread(target=ours.sendall, args=(data,))
    sending.start()
    found = list[object]()
    while len(found) < 3:
        found += inbox.take(None)
    sending.join(10)
    assert found[1:] == TWO
    assert isinstance(found[0], m.Decode)
    assert found[0].source == list(range(70_000))


def test_what_another_thread_tells_wakes_the_loop(ends: tuple[socket.socket, Channel]) -> None:
    _, inbox = ends
    result = LoadResult(m.Load("a", "b"), 0.0)
    telling = threading.Timer(0.02, inbox.put, (result,))
    telling.start()
    assert inbox.take(None) == [result]
    telling.join()
    began = time.monotonic()
    assert inbox.take(0.03) == []  # the bell has stopped
    assert time.monotonic() - began > 0.02


def test_the_end_of_the_front_end_ends_the_process_in_the_middle_of_a_step(
    ends: tuple[socket.socket, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, inbox = ends
    ended = threading.Event()
    monkeypatch.setattr(os, "_exit", lambda status: ended.set())
    inbox.start()
    ours.sendall(m.frame(TWO))  # and nobody reads it
    assert not ended.wait(0.05)
    ours.close()
    assert ended.wait(10)
