"""Frames out of byte streams that are cut anywhere."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import Any, cast
from unittest.mock import patch

import pytest

from app.engine.dispatch.supervisor import WorkerProcess
from app.engine.protocol import messages as m
from models import child_process
from models.child_process import HEADER, MAX_FRAME_BYTES
from models.decoding.options import Hypothesis
from models.inspection.results import AttentionMap
from tests.app.engine.frames import framed

MESSAGES = [
    [m.Started("cpu")],
    [m.Finished(1, [Hypothesis((1, 2), -0.5, -0.25, True)]), m.Tokens({2: [3]})],
    [m.AttentionInspected(3, {"encoder": AttentionMap((0,), (0,), (1, 1, 500, 100), bytes(200_000))})],
    [m.Heartbeat([])],
]


class SocketHolder:
    """Stands for a process that has ended: it holds the other end of the socket."""

    pid = 1

    def __init__(self, command: Sequence[str], pass_fds: Sequence[int], **_: object) -> None:
        self.socket = socket.socket(fileno=os.dup(pass_fds[0]))

    def poll(self) -> int:
        return 0


def received(pieces: list[bytes]) -> tuple[list[m.FromDevice], int]:
    """The messages decoded from these pieces, and how often the end was signalled."""
    messages: list[m.FromDevice] = []
    ends: list[str] = []

    async def run() -> None:
        over = asyncio.Event()

        def end(device: str) -> None:
            ends.append(device)
            over.set()

        process = WorkerProcess("cpu", on_message=lambda _, message: messages.append(message), on_death=end)
        with patch("subprocess.Popen", SocketHolder):
            await process.start({}, [m.Stop()])
        _, writer = await asyncio.open_connection(sock=cast(Any, process)._process.socket)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()
        await asyncio.wait_for(over.wait(), 5)

    asyncio.run(run())
    return messages, len(ends)


@pytest.mark.parametrize("size", [1_000_000, 70_001, 4096])
def test_pieces_of_any_size(size: int) -> None:
    stream = b"".join(framed(message) for message in MESSAGES)
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert received(pieces) == ([message for batch in MESSAGES for message in batch], 1)


def test_bytes_that_come_one_by_one() -> None:
    stream = b"".join(framed(message) for message in MESSAGES if len(framed(message)) < 1000)
    results, _ = received([bytes([byte]) for byte in stream])
    assert len(results) == 4


def test_malformed_frame_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = framed([m.Started("cpu")])
    result, ends = received([good + HEADER.pack(3) + b"???" + good])
    assert (result, ends) == ([m.Started("cpu")], 1)
    assert "cannot be understood" in caplog.text
    result, ends = received([HEADER.pack(MAX_FRAME_BYTES + 1) + good])
    assert (result, ends) == ([], 1)


def test_a_half_frame_at_the_end_is_no_message() -> None:
    assert received([framed([m.Started("cpu")])[:-1]]) == ([], 1)


def test_many_messages_leave_the_event_loop_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message of these takes longer than a slice: others run between them, and the order stays."""
    monkeypatch.setattr(child_process, "SLICE_S", 0.0)
    order: list[str] = []
    stream = b"".join(framed([m.Started(str(number))]) for number in range(20))

    async def run() -> None:
        over = asyncio.Event()

        def handle(_: str, message: m.FromDevice) -> None:
            assert isinstance(message, m.Started)
            order.append(message.device)
            asyncio.get_running_loop().call_soon(order.append, "other")

        process = WorkerProcess("cpu", on_message=handle, on_death=lambda _: over.set())
        with patch("subprocess.Popen", SocketHolder):
            await process.start({}, [m.Stop()])
        _, writer = await asyncio.open_connection(sock=cast(Any, process)._process.socket)
        writer.write(stream)
        writer.close()
        await asyncio.wait_for(over.wait(), 5)

    asyncio.run(run())
    assert [each for each in order if each != "other"] == [str(number) for number in range(20)]
    assert order[:4] == ["0", "other", "1", "other"]
