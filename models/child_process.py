"""Child processes: how one is started, what it and its parent send each other, what it may take, and how it has ended.

Messages are msgspec structs in msgpack, never pickle: a hostile file may have taken the child over. A frame is a 4-byte
big-endian length and its body, one msgpack array of messages. Parent and child hold the two ends of a socket pair. The
parent has a `ChildProcess` in its event loop, an `AnsweringChild` there, or a `BlockingChild`; the child has a
`ParentChannel`, which ends with the parent, however that died."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import math
import os
import queue
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import msgspec

log = logging.getLogger(__name__)
Sent = TypeVar("Sent")
Received = TypeVar("Received")
Decode = Callable[[Any], Sequence[Received]]  # the body of a frame -> its messages

HEADER = struct.Struct(">I")
MAX_FRAME_BYTES = 1 << 30
READ_BYTES = 1 << 16
SLICE_S = 0.002  # of handling messages, before the event loop does anything else
REAP_TIMEOUT_S = 5.0  # a killed process ends at once unless a driver blocks it in the kernel
MOST_UNREAD = 1000  # messages of an `AnsweringChild`
UNLIMITED = resource.RLIM_INFINITY

_encode = msgspec.msgpack.Encoder().encode


def frame(messages: Sequence[object]) -> bytes:
    """A frame of messages. Raises ValueError if its body is too long."""
    body = _encode(messages)
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"A frame of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}.")
    return HEADER.pack(len(body)) + body


class FrameSplitter:
    """Splits a byte stream, fed in chunks of any size, into frame bodies of at most `most_bytes`."""

    def __init__(self, most_bytes: int = MAX_FRAME_BYTES) -> None:
        self._unread, self._most_bytes = bytearray(), most_bytes

    def bodies(self, data: bytes) -> Iterator[bytes | memoryview]:
        """The bodies of the frames completed by `data`. Raises ValueError for a frame that is too long."""
        self._unread += data
        while len(self._unread) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._unread)
            if length > self._most_bytes:
                raise ValueError(f"A frame announces {length} bytes, over the limit of {self._most_bytes}.")
            end = HEADER.size + length
            if len(self._unread) < end:
                return
            if len(self._unread) == end:  # nearly always: a large document is not copied
                whole, self._unread = self._unread, bytearray()
                yield memoryview(whole)[HEADER.size :]
                return
            body = bytes(self._unread[HEADER.size : end])
            del self._unread[:end]
            yield body


# The parent's side -------------------------------------------------------------------------------------------------


def spawn(
    program: Sequence[str], theirs: socket.socket, environment: Mapping[str, str], complaints: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """Runs Python with these arguments, and the descriptor of the child's socket after them. The child inherits only
    that, stdout and stderr. complaints: gets its stderr instead; its stdout is then lost."""
    # Not asyncio's subprocess: uvloop forks, and the child runs the at-fork hooks of libraries. OpenTelemetry's hook
    # starts a thread and never returns, and the event loop waits for the child.
    return subprocess.Popen(
        [sys.executable, *program, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=None if complaints is None else subprocess.DEVNULL,
        stderr=complaints,
        env={**environment, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        start_new_session=True,  # Ctrl-C reaches only the parent, which ends its children in order
    )


def end_in_words(status: int) -> str:
    """How a child ended, by its `returncode`: SIGSEGV, or status 3."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"


class ChildProcess(asyncio.Protocol, Generic[Received]):
    """A child and its socket, in an event loop. name: for callbacks and the log. on_message: called with every message;
    on_death: once, after its end. A protocol handles messages in the event-loop iteration in which they arrive; a
    stream reader would wake a task, which waits after all requests that arrived meanwhile. Messages that take longer
    than a slice wait for the next iteration, and the process meanwhile for its socket. patience_s: for a process that
    has closed its socket to end by itself."""

    patience_s = 0.0

    def __init__(
        self,
        name: str,
        program: Sequence[str],
        decode: Decode[Received],
        *,
        on_message: Callable[[str, Received], None],
        on_death: Callable[[str], None],
        most_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self.name, self._program, self._decode = name, program, decode
        self._on_message, self._on_death = on_message, on_death
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter(most_bytes)
        self._bodies: deque[bytes | memoryview] = deque()  # with messages that `_on_message` has not had yet
        self._continuing: asyncio.Handle | None = None
        self._over = asyncio.Event()  # the process has ended and all its messages are handled
        self._reaping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def status(self) -> int | None:
        """The `returncode` of the process; None while it runs."""
        return self._process.poll() if self._process else None

    async def start(
        self, environment: Mapping[str, str], first: Sequence[object] = (), complaints: IO[bytes] | None = None
    ) -> None:
        """Spawns the process and sends `first`. complaints: as in `spawn`."""
        ours, theirs = socket.socketpair()
        with theirs:
            loop = asyncio.get_running_loop()  # connect first, so that the socket is closed if the spawn fails
            transport, _ = await loop.create_connection(lambda: self, sock=ours)
            try:
                self._process = spawn(self._program, theirs, environment, complaints)
            except BaseException:
                transport.close()
                raise
        self._transport = transport
        if first:
            self.send(first)

    def send(self, messages: Sequence[object]) -> None:
        """Writes without backpressure: callers bound what is in flight."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(messages))

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            self._bodies.extend(self._splitter.bodies(data))
        except ValueError:
            self._handle_messages(all_at_once=True)
            self._end_misunderstood()
        else:
            if self._continuing is None:
                self._handle_messages()

    def _handle_messages(self, *, all_at_once: bool = False) -> None:
        self._continuing, began = None, time.perf_counter()
        try:
            while self._bodies:
                for message in self._decode(self._bodies.popleft()):
                    self._on_message(self.name, message)
                if self._bodies and not all_at_once and time.perf_counter() - began >= SLICE_S:
                    self._continuing = asyncio.get_running_loop().call_soon(self._handle_messages)
                    break
        except Exception:
            self._end_misunderstood()
        if self._transport is not None and not self._transport.is_closing():
            if self._continuing is None:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _end_misunderstood(self) -> None:
        log.exception("the process of %s said what cannot be understood; it is ended", self.name)
        self._bodies.clear()
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._continuing is not None:
            self._continuing.cancel()
            self._handle_messages(all_at_once=True)
        if self._process is not None:  # else `start` raises
            self._reaping = asyncio.get_running_loop().create_task(self._reap(), name=f"reap {self.name}")

    async def _reap(self) -> None:
        try:
            if self.patience_s:
                await self._ends_within(self.patience_s)
            await self.kill()
            self._on_death(self.name)
        finally:
            self._over.set()

    async def kill(self) -> None:
        """Kills the process, even a stopped one (SIGSTOP), and reaps it."""
        if self._transport is not None:
            self._transport.abort()  # discards unread messages
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            if not await self._ends_within(REAP_TIMEOUT_S):
                log.error("process %d of %s does not end although it was killed", self._process.pid, self.name)

    async def _ends_within(self, limit_s: float) -> bool:
        """Waits for the exit, which reaps the process; False on timeout."""
        assert self._process is not None
        try:
            await asyncio.to_thread(self._process.wait, limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    async def stop(self, timeout_s: float = 0.0, last: Sequence[object] = ()) -> None:
        """Sends the last messages, which ask the process to end, and kills it after the timeout."""
        if last:
            self.send(last)
        if self._process is not None and timeout_s:
            await self._ends_within(timeout_s)
        await self.kill()
        if self._transport is not None:
            await self._over.wait()


class AnsweringChild(ChildProcess[Received]):
    """A child whose messages are awaited one by one."""

    patience_s = REAP_TIMEOUT_S

    def __init__(
        self, name: str, program: Sequence[str], decode: Decode[Received], most_bytes: int = MAX_FRAME_BYTES
    ) -> None:
        self._unread: asyncio.Queue[Received | None] = asyncio.Queue()
        super().__init__(
            name, program, decode, on_message=self._keep, on_death=lambda _: self._keep("", None), most_bytes=most_bytes
        )

    def _keep(self, _: str, message: Received | None) -> None:
        if message is not None and self._unread.qsize() >= MOST_UNREAD:
            raise ValueError(f"More than {MOST_UNREAD} messages are unread.")
        self._unread.put_nowait(message)

    async def receive(self) -> Received:
        """EOFError from a process that has ended, or that has said what cannot be understood."""
        if (message := await self._unread.get()) is None:
            self._unread.put_nowait(None)
            raise EOFError
        return message


class BlockingChild(Generic[Received]):
    """A child for a thread that may wait. Arguments as of `ChildProcess` and `spawn`."""

    def __init__(
        self,
        program: Sequence[str],
        decode: Decode[Received],
        environment: Mapping[str, str],
        most_bytes: int = MAX_FRAME_BYTES,
        complaints: IO[bytes] | None = None,
    ) -> None:
        self._decode, self._splitter = decode, FrameSplitter(most_bytes)
        self._unread, self._misunderstood = deque[Received](), False
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = spawn(program, theirs, environment, complaints)
            except BaseException:
                self._socket.close()
                raise

    def send(self, messages: Sequence[object]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # an ended child is noticed by its answer
            self._socket.sendall(frame(messages))

    def receive(self, limit_s: float) -> Received:
        """The next message. TimeoutError after the limit; EOFError from a child that has ended, or has said what cannot
        be understood."""
        end_s = time.monotonic() + limit_s
        while not self._unread:
            if (left_s := end_s - time.monotonic()) <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            try:
                data = b"" if self._misunderstood else self._socket.recv(READ_BYTES)
            except ConnectionResetError:  # by a child that has not read all of its messages
                data = b""
            if not data:
                raise EOFError
            try:
                for body in self._splitter.bodies(data):
                    self._unread.extend(self._decode(body))
            except Exception:
                self._misunderstood = True
        return self._unread.popleft()

    def end(self, patience_s: float = 0.0) -> int:
        """Kills the child, unless it ends within `patience_s`; its `returncode`."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._socket.close()
        return self._process.wait()


# The child's side --------------------------------------------------------------------------------------------------


class ParentChannel(Generic[Received, Sent]):
    """The child's end of the socket, and the results of its other threads. Reads the socket in the main
    loop: waking the loop from a reader thread would take longer than the message. connection: by default that of the
    descriptor that `spawn` gives."""

    def __init__(self, decode: Decode[Received], connection: socket.socket | None = None) -> None:
        self._connection = connection or socket.socket(fileno=int(sys.argv[-1]))
        self._decode, self._splitter = decode, FrameSplitter()
        self._results: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._poll = select.poll()
        self._poll.register(self._connection.fileno(), select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)

    def exit_with_parent(self) -> None:
        """Starts a thread that exits the process when the parent is gone, even in the middle of a step."""

        def wait_and_exit() -> None:
            hangup = select.poll()
            hangup.register(self._connection, 0)  # 0: hangup only
            hangup.poll()
            os._exit(0)

        threading.Thread(target=wait_and_exit, name="hangup", daemon=True).start()

    def put(self, result: Received) -> None:
        """Passes a result to the main loop, from any thread."""
        self._results.put(result)
        with contextlib.suppress(BlockingIOError):  # full: a busy main loop does not read it, and needs no waking
            os.write(self._wake_write, b".")

    def send(self, messages: Sequence[Sent]) -> None:
        if messages:
            self._connection.sendall(frame(messages))

    def receive(self, wait_s: float | None) -> list[Received]:
        """All available messages; waits up to wait_s for the first (None: forever). Raises ConnectionError if the
        parent is gone, ValueError or msgspec.DecodeError for a malformed message."""
        messages = self._available()
        if not messages and wait_s != 0:
            for descriptor, _ in self._poll.poll(None if wait_s is None else math.ceil(wait_s * 1000)):
                if descriptor == self._wake_read:
                    os.read(descriptor, READ_BYTES)  # the result may have been taken already
            messages = self._available()
        return messages

    def _available(self) -> list[Received]:
        messages: list[Received] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                if not (data := self._connection.recv(READ_BYTES, socket.MSG_DONTWAIT)):
                    if messages:
                        break
                    raise ConnectionResetError("the parent is gone")
                for body in self._splitter.bodies(data):
                    messages += self._decode(body)
        with contextlib.suppress(queue.Empty):
            while True:
                messages.append(self._results.get_nowait())
        return messages

    def each(self) -> Iterator[Received]:
        """The messages one by one, until the parent is gone."""
        with contextlib.suppress(ConnectionError):
            while True:
                yield from self.receive(None)


def ending_signals() -> list[signal.Signals]:
    """The signals that drain a service: SIGTERM, SIGINT and, unless `nohup` has it ignored, the SIGHUP of a closed
    terminal."""
    heard = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.append(signal.SIGHUP)
    return heard


def ignore_ending_signals() -> None:
    """An init system may send them to every process of a service; the one that has started this one drains, then stops
    it."""
    for number in ending_signals():
        signal.signal(number, signal.SIG_IGN)


def die_with_parent() -> None:
    """Linux kills this process when the parent thread that spawned it ends, even where this process is stopped;
    elsewhere the closed socket ends it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG


def limit_process(memory_bytes: int, open_files: int | None = None, *, maps_files: bool = False) -> None:
    """From now on, of the address space; nothing of it is written to a core file. maps_files: files in memory are no
    part of the limit."""
    resource.setrlimit(resource.RLIMIT_DATA if maps_files else resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if open_files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))


def limit_cpu(seconds: int) -> None:
    """From now on; SIGXCPU ends the process, wherever it is busy."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds, UNLIMITED))


@contextmanager
def limited(more_bytes: int, seconds: int | None = None) -> Iterator[None]:
    """Within the block this process may allocate so much more memory, of which its files in memory are no part, and use
    the processor for so many seconds. MemoryError, or an allocator's own error; SIGXCPU ends the process."""
    kinds = (resource.RLIMIT_DATA, resource.RLIMIT_CPU)
    before = [resource.getrlimit(kind) for kind in kinds]
    if (held := _data_bytes()) is not None:
        soft, hard = before[0]
        most = held + more_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most if soft == UNLIMITED else min(soft, most), hard))
    if seconds is not None:
        limit_cpu(seconds)
    try:
        yield
    finally:
        for kind, limits in zip(kinds, before, strict=True):
            resource.setrlimit(kind, limits)


def _data_bytes() -> int | None:
    """Of this process, its stack included; None on systems without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:
        return None
