"""Input lines in numbered chunks, from files, a redirected file, or a pipe."""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from training.data.corpus_files import BYTE_ORDER_MARK, decode_lines, file_lines, numbered_lines, open_corpus_file
from training.errors import TrainingError

BLOCK = 1 << 16  # bytes read from a pipe at once, as many as it holds
MOMENT_S = 0.04  # a pipe that brings nothing for so long is slow: its lines are not kept waiting
STDIN = Path("standard input")


class LineChunk(NamedTuple):
    """first: the number of the first line, from 0."""

    first: int
    lines: list[str]


class LineInput:
    """Lines without their ends: LF or CRLF, or CR in a file that has no LF. A byte order mark is left out. count: the
    number of all lines; None: unknown, of a pipe. wake: a pipe's file descriptor. Reading raises a TrainingError that
    names the line with invalid UTF-8; of files it comes before the first line is translated."""

    def __init__(self, files: Sequence[Path], stdin: BinaryIO) -> None:
        self._files, self._stdin = tuple(files), stdin
        self._start = 0
        self.wake: int | None = None
        self.count: int | None = None
        if files:
            self.count = sum(1 for file in files for _ in numbered_lines(file))
        elif stat.S_ISREG(os.fstat(stdin.fileno()).st_mode):
            self._start = stdin.tell()
            self.count = sum(1 for _ in _lines(stdin, STDIN))
        else:
            self.wake = stdin.fileno()

    def lines(self) -> Iterator[str]:
        """All lines; waits for a pipe."""
        if self._files:
            for path in self._files:
                with open_corpus_file(path) as file:
                    yield from _lines(file, path)
            return
        if self.wake is None:
            self._stdin.seek(self._start)
        yield from _lines(self._stdin, STDIN)

    def prompt_chunks(self, size: int) -> Iterator[LineChunk | None]:
        """Chunks of at most `size` lines of a pipe, shorter ones where it is slow; None where no line waits. The
        TrainingError of a broken line comes after the lines before it."""
        assert self.wake is not None
        first, lines, rest = 0, list[str](), b""
        ended, last = False, time.monotonic()
        failure: TrainingError | None = None
        while not ended or lines:
            while not ended and len(lines) < size and _readable(self.wake):
                block = os.read(self.wake, BLOCK)
                last, ended = time.monotonic(), not block
                *whole, rest = (rest + block).split(b"\n")
                whole += [rest] if ended and rest else []
                for raw in whole:
                    number = first + len(lines)
                    raw = raw.removeprefix(BYTE_ORDER_MARK) if number == 0 else raw
                    try:
                        lines.append(decode_lines(raw.removesuffix(b"\r"), STDIN, number + 1))
                    except TrainingError as error:
                        failure, ended = error, True
                        break
            if lines and (ended or len(lines) >= size or time.monotonic() - last >= MOMENT_S):
                yield LineChunk(first, lines[:size])
                first, lines = first + len(lines[:size]), lines[size:]
            elif not ended:
                yield None
        if failure is not None:
            raise failure


def _lines(file: BinaryIO, name: Path) -> Iterator[str]:
    for number, raw in enumerate(file_lines(file), start=1):
        line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
        yield decode_lines(line.removesuffix(b"\n").removesuffix(b"\r"), name, number)


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def chunks_of(lines: Iterator[str], size: int, first: int = 0) -> Iterator[LineChunk]:
    """Chunks of `size` lines; the last one may be shorter."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield LineChunk(first, chunk)
            first, chunk = first + size, []
    if chunk:
        yield LineChunk(first, chunk)
