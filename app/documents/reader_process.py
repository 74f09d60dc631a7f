"""A process that reads and writes documents: the program behind `ReaderPool`, with limits of memory and time.

A hostile file may cost what no check foresees, also in libraries that hold the interpreter, or may break a parser that
is written in C. In this process that ends one request. The process imports the readers alone, which takes 50 MB, and
answers in msgpack, which carries nothing but texts and bytes to the server."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from app.documents.open_document import OpenDocument
from app.documents.subtitles import SubRip, Subtitles, WebVtt
from app.documents.text_files import PlainText, WebPage
from app.documents.word_document import WordDocument
from app.errors import InvalidRequest

# A reader has `texts`, the texts to translate in the order of the file; `format`, the format of these texts; and
# `written`, which returns the file with their translations. It is called once; language "" keeps the declared one.
READERS: dict[str, Callable[[bytes], PlainText | Subtitles | WordDocument | OpenDocument]] = {
    ".txt": PlainText,
    ".md": PlainText,
    ".srt": SubRip,
    ".vtt": WebVtt,
    ".html": WebPage,
    ".htm": WebPage,
    ".docx": WordDocument,
    ".odt": OpenDocument,
    ".ods": OpenDocument,
    ".odp": OpenDocument,
}
FRAME = struct.Struct("!Q")  # the length of the message behind it
TEXTS_TOGETHER = 10_000
_NICENESS = 5  # the server answers everybody else meanwhile
_OPEN_FILES = 64


class Job(msgspec.Struct):
    """Reads a file, or, with translations, writes it: it is read again, so that no process waits for a translator."""

    extension: str
    content: bytes
    time_limit_s: int
    translations: list[str] | None = None
    language: str = ""


class Texts(msgspec.Struct, tag=True):
    """more: another message has the texts behind these. The server decodes a message in one go."""

    texts: list[str]
    format: Literal["text", "html"]
    more: bool = False


class File(msgspec.Struct, tag=True):
    content: bytes


class Refused(msgspec.Struct, tag=True):
    message: str
    field: str | None


class OutOfMemory(msgspec.Struct, tag=True):
    pass


Answer = Texts | File | Refused | OutOfMemory


def answer(job: Job) -> Answer:
    try:
        document = READERS[job.extension](job.content)
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


def main() -> None:
    """Answers jobs until the server closes its end, or is gone. Arguments: the descriptor of a socket, and the limit of
    the address space in bytes."""
    descriptor, memory_bytes = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    decoder, encoder = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder()
    with socket.socket(fileno=descriptor) as server, server.makefile("rb") as received:
        while len(head := received.read(FRAME.size)) == FRAME.size:
            job = decoder.decode(received.read(*FRAME.unpack(head)))
            signal.alarm(job.time_limit_s)  # ends the process, also within a library in C and after the server's end
            whole = answer(job)
            signal.alarm(0)
            for part in messages(whole):
                message = encoder.encode(part)
                server.sendall(FRAME.pack(len(message)))
                server.sendall(message)
