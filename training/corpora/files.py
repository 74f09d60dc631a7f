"""Bytes to lines and texts: UTF-8 with or without a byte order mark, plain or gzipped (`.gz`).

Whatever is wrong with a file is said in one sentence that names it and the line.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from training.errors import TrainingError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked. TrainingError if it is missing, unreadable, or damaged while it is read."""
    try:
        with path.open("rb") as file:
            if path.suffix == ".gz":
                yield cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=file)))
            else:
                yield file
    except FileNotFoundError:
        raise TrainingError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise TrainingError(f"{path} is a folder, and a file is needed.") from None
    except gzip.BadGzipFile:
        raise TrainingError(f"{path} cannot be read (no gzip file, or a damaged one): get it once more.") from None
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or error  # without the number and the path once more
        raise TrainingError(f"{path} cannot be read ({said}).") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line). Lines end at LF or CRLF alone: a Unicode line separator inside a sentence must not
    shift a parallel text. One line is held in memory at a time."""
    with opened(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
            yield number, _decoded(line.removesuffix(b"\n").removesuffix(b"\r"), path, number)


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise TrainingError(f"{path} is not valid UTF-8: line {number} has a broken character; convert it.") from None
    if "\0" in text:
        raise TrainingError(f"{path} holds a NUL character in line {number}: is it a text file?")
    return text


def read_lines(path: Path) -> list[str]:
    return [line for _, line in numbered_lines(path)]


def stem_suffix(path: Path) -> str:
    """The suffix that names the format, in lower case: ".tsv" of "pairs.TSV.gz"."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
