"""A small pool of processes that read and write large documents. A process has a limit of memory and of time, and is
killed when its limit is reached, when the client leaves, and when the server stops."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from app.documents.reader_process import FRAME, Answer, Job, OutOfMemory, Refused, Texts
from app.errors import InvalidRequest

# Smaller files are read in a thread of the server, in about 0.1 s; a process takes as long to start.
IN_PLACE_BYTES = 50_000
_IN_PLACE_UNPACKED_BYTES = 2_000_000  # of packages: an empty Word document has 800,000
_PACKAGES = (".docx", ".odt", ".ods", ".odp")
READER_PROCESSES = 2
_JOBS_PER_PROCESS = 50  # then its memory returns to the system
_IDLE_S = 60.0
_BUFFER_BYTES = 1 << 20
_MAX_ANSWER_BYTES = 400_000_000  # MAX_CHARACTERS in UTF-8, their tags, and what a package unpacks to
_PROGRAM = "from app.documents.reader_process import main; main()"
_ANSWERS = msgspec.msgpack.Decoder(Answer)


def is_small(extension: str, content: bytes) -> bool:
    """Whether the server reads the file itself: by its size, and of a package also by the size that it declares."""
    if len(content) > IN_PLACE_BYTES:
        return False
    if extension not in _PACKAGES:
        return True
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            return sum(entry.file_size for entry in package.infolist()) <= _IN_PLACE_UNPACKED_BYTES
    except Exception:  # broken packages raise all kinds of exceptions, and are refused by their reader
        return True


class ReaderPool:
    """memory_bytes: the address space of one process. Jobs beyond `processes` wait."""

    def __init__(
        self, processes: int = READER_PROCESSES, memory_bytes: int = 2_000_000_000, time_limit_s: int = 60
    ) -> None:
        self._memory_bytes, self._time_limit_s = memory_bytes, time_limit_s
        self._room = asyncio.Semaphore(processes)
        self._idle: list[_ReaderProcess] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def run(
        self, extension: str, content: bytes, translations: list[str] | None = None, language: str = ""
    ) -> Answer:
        """Reads a file, or writes it with translations. InvalidRequest for a file that its reader refuses or that takes
        more memory or time than a process has."""
        async with self._room:
            process = self._idle_process() or await _ReaderProcess.started(self._memory_bytes)
            process.cancel_end()
            try:
                # The process ends itself a second later, if the server should be gone by then.
                job = Job(extension, content, self._time_limit_s + 1, translations, language)
                async with asyncio.timeout(self._time_limit_s):
                    answer = await process.answered(job)
            except TimeoutError:
                self._end(process)
                sentence = f"The file takes more than {self._time_limit_s} seconds to read or write; send it in parts."
                raise InvalidRequest(sentence, field="file") from None
            except (EOFError, OSError):
                self._end(process)
                answer = OutOfMemory()
            except BaseException:  # the client has left, or the server stops
                self._end(process)
                raise
            if isinstance(answer, OutOfMemory) or process.jobs == _JOBS_PER_PROCESS:
                self._end(process)
            elif process.running:
                self._idle.append(process)
                process.end_later(self._idle_ended, _IDLE_S)
        if isinstance(answer, OutOfMemory):
            sentence = f"The file takes more than {self._memory_bytes / 1e9:g} GB to read or write; send it in parts."
            raise InvalidRequest(sentence, field="file")
        if isinstance(answer, Refused):
            raise InvalidRequest(answer.message, field=answer.field)
        return answer

    async def close(self) -> None:
        while self._idle:
            self._end(self._idle.pop())
        await asyncio.gather(*self._ending)

    def _idle_process(self) -> _ReaderProcess | None:
        """None where there is none. One that has died while it had nothing to read, as of the kernel's memory killer,
        says nothing about the next file."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive():
                return process
            self._end(process)
        return None

    def _idle_ended(self, process: _ReaderProcess) -> None:
        self._idle.remove(process)
        self._end(process)

    def _end(self, process: _ReaderProcess) -> None:
        task = asyncio.get_running_loop().create_task(process.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


@dataclass(slots=True, eq=False)
class _ReaderProcess:
    _process: subprocess.Popen[bytes]
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    _timer: asyncio.TimerHandle | None = None
    jobs: int = 0
    running: bool = True

    @classmethod
    async def started(cls, memory_bytes: int) -> _ReaderProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                reader, writer = await asyncio.open_connection(sock=ours, limit=_BUFFER_BYTES)
            except BaseException:
                ours.close()
                raise
            try:
                # Not asyncio's subprocess, for the reason that `WorkerProcess.start` gives.
                process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(memory_bytes)],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "LC_ALL": "C.UTF-8"},
                    start_new_session=True,  # Ctrl-C reaches only the server, which ends this process
                )
            except BaseException:
                writer.close()
                raise
        return cls(process, reader, writer)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    async def answered(self, job: Job) -> Answer:
        """EOFError or OSError if the process dies of the job, or announces more than a file can hold."""
        self.jobs += 1
        message = msgspec.msgpack.encode(job)
        self._writer.writelines([FRAME.pack(len(message)), message])
        await self._writer.drain()
        texts: list[str] = []
        while True:
            (size_bytes,) = FRAME.unpack(await self._reader.readexactly(FRAME.size))
            if size_bytes > _MAX_ANSWER_BYTES:
                raise EOFError
            answer: Answer = _ANSWERS.decode(await self._reader.readexactly(size_bytes))
            if not isinstance(answer, Texts):
                return answer
            texts += answer.texts
            if not answer.more:
                return Texts(texts, answer.format)
            await asyncio.sleep(0)  # others' turn: the next message may be here already

    def end_later(self, ended: Callable[[_ReaderProcess], None], delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, ended, self)

    def cancel_end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def end(self) -> None:
        self.running = False
        self.cancel_end()
        self._process.kill()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.to_thread(self._process.wait)
