"""Child processes that crash, hang, flood, send garbage or outlive their parent."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from models.child_process import AnsweringChild, BlockingChild, FrameSplitter, end_in_words, frame, limited
from tests.readme import ROOT

DECODE = msgspec.msgpack.Decoder(list[int]).decode
BEGIN = """
import os, signal, sys, time
from models.child_process import ParentChannel, die_with_parent
channel = ParentChannel(__import__("msgspec").msgpack.Decoder(list[int]).decode)
raw = channel._connection.sendall
"""
ECHO = BEGIN + "for number in channel.each(): channel.send([number, -number])"


def blocking(code: str, most_bytes: int = 1000) -> BlockingChild[int]:
    return BlockingChild(["-c", code], DECODE, dict(os.environ), most_bytes)


async def answers(code: str, count: int) -> tuple[list[int], int | None]:
    """So many answers of an event loop's child, or those before its end, and how it ended."""
    child = AnsweringChild("a test", ["-c", code], DECODE, 1000)
    await child.start(dict(os.environ), [1])
    received = list[int]()
    try:
        for _ in range(count):
            received.append(await asyncio.wait_for(child.receive(), 20))
    except EOFError:
        pass
    await child.stop()
    return received, child.status


def test_both_handles_have_the_same_conversation() -> None:
    child = blocking(ECHO)
    child.send([1])
    assert [child.receive(20), child.receive(20)] == [1, -1]
    assert end_in_words(child.end()) == "SIGKILL"
    received, status = asyncio.run(answers(ECHO, 2))
    assert (received, end_in_words(status or 0)) == ([1, -1], "SIGKILL")


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("os._exit(3)", "status 3"),
        ("raw(bytes(2)); os._exit(3)", "status 3"),  # half of a header
        ("raw(b'\\0\\0\\0\\x09\\x91'); os._exit(3)", "status 3"),  # half of a frame
        ("raw(b'\\xff' * 100); os._exit(3)", "status 3"),  # a frame of 4 GB
        ("raw(b'\\0\\0\\0\\x01\\xc1'); os._exit(3)", "status 3"),  # no msgpack
        ("channel.send(['a']); os._exit(3)", "status 3"),  # another type
        ("raw(b'\\0\\0\\x01\\0' + b'\\x91' * 256); os._exit(3)", "status 3"),  # nested without end
    ],
)
def test_messages_before_an_end_or_garbage_are_received_and_then_its_end(code: str, end: str) -> None:
    code = f"{BEGIN}channel.send([7])\n{code}"
    child = blocking(code)
    assert child.receive(20) == 7
    with pytest.raises(EOFError):
        child.receive(20)
    assert end_in_words(child.end(20)) == end
    received, status = asyncio.run(answers(code, 2))
    assert (received, end_in_words(status or 0)) == ([7], end)


def test_half_a_frame_is_waited_for_until_the_deadline() -> None:
    child = blocking(BEGIN + "channel.send([7]); raw(bytes(2)); time.sleep(1000)")
    assert child.receive(20) == 7
    with pytest.raises(TimeoutError):
        child.receive(0.05)
    assert end_in_words(child.end()) == "SIGKILL"


def test_flood_that_nobody_reads_ends_the_child() -> None:
    """The parent's memory is not the child's."""

    async def flooded() -> int:
        child = AnsweringChild("a test", ["-c", BEGIN + "while True: channel.send([7])"], DECODE, 1000)
        child.patience_s = 0.05
        await child.start(dict(os.environ))
        async with asyncio.timeout(20):
            while child.status is None:
                await asyncio.sleep(0.01)
        await child.stop()
        count = 0
        with pytest.raises(EOFError):
            while True:
                await child.receive()
                count += 1
        return count

    assert asyncio.run(flooded()) <= 1000


@pytest.mark.parametrize("work", ["for _ in channel.each(): pass", "channel.exit_with_parent()\nwhile True: pass"])
def test_child_ends_with_its_killed_parent(work: str, tmp_path: Path) -> None:
    child = BEGIN + f"open({str(tmp_path / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')\n{work}"
    parent = f"""
import os, signal, time
from models.child_process import BlockingChild
child = BlockingChild(["-c", {child!r}], list, dict(os.environ))
while not os.path.exists({str(tmp_path / "pid")!r}) or not open({str(tmp_path / "pid")!r}).read():
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", parent], cwd=ROOT, check=False).returncode == -signal.SIGKILL
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_frames_are_split_wherever_they_are_cut() -> None:
    stream = b"".join(frame(list(range(count))) for count in (0, 1, 300, 2))
    for size in (1, 3, 7, len(stream)):
        splitter = FrameSplitter()
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        bodies = [DECODE(body) for piece in pieces for body in splitter.bodies(piece)]
        assert bodies == [list(range(count)) for count in (0, 1, 300, 2)]


def test_memory_is_limited_within_the_block_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited(50_000_000):
        assert len(bytearray(20_000_000)) == 20_000_000
        with pytest.raises(MemoryError):
            bytearray(100_000_000)
        with limited(1_000_000_000), pytest.raises(MemoryError):  # an inner block allows no more than the outer one
            bytearray(100_000_000)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(bytearray(100_000_000)) == 100_000_000


def test_busy_process_is_ended_with_a_name() -> None:
    busy = "from models.child_process import limited\nwith limited(1 << 30, seconds=1):\n    while True: pass"
    child = subprocess.run([sys.executable, "-c", busy], cwd=ROOT, check=False)
    assert end_in_words(child.returncode) == "SIGXCPU"
    assert end_in_words(3) == "status 3"
