"""A small pool of processes that read and write large documents.

A hostile file may cost what no check foresees, also in libraries that hold the interpreter, or may break a parser that
is written in C. In a process of the pool that ends one request. It has a limit of memory and of time, and is killed
when its limit is reached, when the client leaves, and when the server stops."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
import zipfile
from collections.abc import Iterator
from typing import Literal

import msgspec

from app.documents.readers import READERS
from app.errors import InvalidRequest
from models.child_process import AnsweringChild, ParentChannel, die_with_parent, limit_process

# Smaller files are read in a thread of the server, in about 0.1 s; a process takes as long to start.
IN_PLACE_BYTES = 50_000
_IN_PLACE_UNPACKED_BYTES = 2_000_000  # of packages: an empty Word document has 800,000
READER_PROCESSES = 2
_JOBS_PER_PROCESS = 50  # then its memory returns to the system
_IDLE_S = 60.0
_MAX_ANSWER_BYTES = 400_000_000  # MAX_CHARACTERS in UTF-8, their tags, and what a package unpacks to
TEXTS_TOGETHER = 10_000  # in a message, which the server decodes in one go
_NICENESS = 5  # the server answers everybody else meanwhile
_OPEN_FILES = 64
_PROGRAM = "from app.documents.reader_pool import read_jobs; read_jobs()"


class Job(msgspec.Struct):
    """Reads a file, or, with translations, writes it: it is read again, so that no process waits for a translator."""

    extension: str
    content: bytes
    time_limit_s: int
    translations: list[str] | None = None
    language: str = ""


class Texts(msgspec.Struct, tag=True):
    """more: another message has the texts after these."""

    texts: list[str]
    format: Literal["text", "html", "xml"]
    more: bool = False


class File(msgspec.Struct, tag=True):
    content: bytes


class Refused(msgspec.Struct, tag=True):
    message: str
    field: str | None


class OutOfMemory(msgspec.Struct, tag=True):
    pass


Answer = Texts | File | Refused | OutOfMemory
_DECODE = msgspec.msgpack.Decoder(list[Answer]).decode


def is_small(extension: str, content: bytes) -> bool:
    """Whether the server reads the file itself: by its size, and of a package also by the size that it declares."""
    if len(content) > IN_PLACE_BYTES:
        return False
    if not READERS[extension].packaged:
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
            if (process := self._idle_process()) is None:
                process = _ReaderProcess(self._memory_bytes)
                await process.start({"LC_ALL": "C.UTF-8"})
            if process.idle_end is not None:
                process.idle_end.cancel()
            try:
                # The process ends itself a second later, if the server should be gone by then.
                job = Job(extension, content, self._time_limit_s + 1, translations, language)
                async with asyncio.timeout(self._time_limit_s):
                    answer = await process.answered(job)
            except TimeoutError:
                self._end(process)
                sentence = f"The file takes more than {self._time_limit_s} seconds to read or write; send it in parts."
                raise InvalidRequest(sentence, field="file") from None
            except EOFError:
                self._end(process)
                answer = OutOfMemory()
            except BaseException:  # the client has left, or the server stops
                self._end(process)
                raise
            if isinstance(answer, OutOfMemory) or process.jobs == _JOBS_PER_PROCESS:
                self._end(process)
            else:
                self._idle.append(process)
                process.idle_end = asyncio.get_running_loop().call_later(_IDLE_S, self._idle_ended, process)
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
            if process.status is None:
                return process
            self._end(process)
        return None

    def _idle_ended(self, process: _ReaderProcess) -> None:
        self._idle.remove(process)
        self._end(process)

    def _end(self, process: _ReaderProcess) -> None:
        if process.idle_end is not None:
            process.idle_end.cancel()
        task = asyncio.get_running_loop().create_task(process.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _ReaderProcess(AnsweringChild[Answer]):
    def __init__(self, memory_bytes: int) -> None:
        super().__init__("a reader", ["-c", _PROGRAM, str(memory_bytes)], _DECODE, _MAX_ANSWER_BYTES)
        self.jobs = 0
        self.idle_end: asyncio.TimerHandle | None = None

    async def answered(self, job: Job) -> Answer:
        """EOFError if the process dies of the job."""
        self.jobs += 1
        self.send([job])
        texts: list[str] = []
        while isinstance(answer := await self.receive(), Texts):
            texts += answer.texts
            if not answer.more:
                return Texts(texts, answer.format)
        return answer


def answer(job: Job) -> Answer:
    try:
        document = READERS[job.extension].read(job.content)
        if job.translations is None:
            return Texts(document.texts, document.format)
        return File(document.written(job.translations, job.language))
    except InvalidRequest as refusal:
        return Refused(refusal.message, refusal.field)
    except MemoryError:
        return OutOfMemory()


def messages(whole: Answer) -> Iterator[Answer]:
    """The answer in messages of at most `TEXTS_TOGETHER` texts."""
    if not isinstance(whole, Texts):
        yield whole
        return
    starts = range(0, max(1, len(whole.texts)), TEXTS_TOGETHER)
    for start in starts:
        yield Texts(whole.texts[start : start + TEXTS_TOGETHER], whole.format, more=start != starts[-1])


def read_jobs() -> None:
    """The program of a process: answers jobs until the server closes its end, or is gone. Arguments: the limit of the
    address space in bytes, and the descriptor of a socket."""
    die_with_parent()
    limit_process(int(sys.argv[1]), _OPEN_FILES)
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    channel = ParentChannel[Job, Answer](msgspec.msgpack.Decoder(list[Job]).decode)
    for job in channel.each():
        signal.alarm(job.time_limit_s)  # ends the process, also within a library in C and after the server's end
        whole = answer(job)
        signal.alarm(0)
        for part in messages(whole):
            channel.send([part])
