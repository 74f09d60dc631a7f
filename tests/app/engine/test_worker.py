"""The device process's end of the socket."""

from __future__ import annotations

import os
import socket

import pytest

from app.engine import messages as m
from app.engine.worker import Inbox


class Ended(BaseException):
    """Instead of the end of this process."""


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 0),
        (m.frame([m.Cancel(1)])[:3], 0),
        (m.frame([m.Cancel(1)])[:-1], 0),
        (m.HEADER.pack(m.MAX_FRAME_BYTES + 1), 1),
        (m.HEADER.pack(1) + b"\xc1", 1),
        (m.frame([m.Started("cpu")]), 1),
    ],
)
def test_the_process_ends_when_it_can_hear_nothing_more(
    data: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    ours, theirs = socket.socketpair()
    with theirs:
        inbox = Inbox(theirs)
        with ours:
            ours.sendall(m.frame([m.Cancel(7), m.Cancel(8)]) + data)
        with pytest.raises(Ended) as ended:
            inbox._read()
        inbox._file.close()
    assert ended.value.args == (status,)
    assert inbox.take(None) == [m.Cancel(7), m.Cancel(8)]
