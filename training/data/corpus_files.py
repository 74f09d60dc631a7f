"""The lines of a corpus file, compressed or not, and those of two files in Moses' form, aligned line by line.
Every error is one sentence that names the file and the line."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from training.data.progress_bar import progress_bar
from training.data.sentence_pairs import LeftOutRow, Row, malformed
from training.errors import TrainingError, os_error_reason, pluralize

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DOCUMENTS = (b"PK\x03\x04", b"%PDF-")  # zip files, which .docx, .odt and .xlsx are


@contextlib.contextmanager
def open_corpus_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file's bytes, decompressed. TrainingError if it is missing, unreadable, or turns out damaged."""
    try:
        with path.open("rb") as file:
            if path.suffix == ".gz":
                yield cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=file)))
            else:
                yield file
    except (FileNotFoundError, IsADirectoryError) as error:
        raise TrainingError(f"{os_error_reason(error)}.") from None
    except gzip.BadGzipFile:
        raise TrainingError(f"{path} cannot be read (no gzip file, or a damaged one): get it once more.") from None
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or error  # without errno and path, which the message already has
        raise TrainingError(f"{path} cannot be read ({said}).") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line), streamed. LF and CRLF end a line, or CR in a file that has no LF: Unicode separators
    cannot shift parallel texts."""
    for number, line in raw_lines(path):
        yield number, decode_lines(line, path, number)


def readable_lines(path: Path, skip: bool) -> Iterator[tuple[int, str] | LeftOutRow]:
    """As `numbered_lines`; with `skip` a line that is no UTF-8 or holds a NUL character comes as a `LeftOutRow`."""
    if not skip:
        yield from numbered_lines(path)
        return
    for number, line in raw_lines(path):
        try:
            yield number, decode_lines(line, path, number)
        except TrainingError as error:
            what = "NUL character" if b"\0" in line else "not UTF-8"
            yield malformed(number, what, line.decode(errors="replace").replace("\0", "␀"), error)


PROGRESS_LINES = 20_000  # between two updates of the progress bar
LOOKED_AT_BYTES = 1 << 20  # that show whether lines end with CR
MOST_LINE_BYTES = 100_000_000  # a compressed file of a few megabytes may hold one line that no memory takes


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number from 1, bytes of the line without its end), with a progress bar where reading takes long. TrainingError
    names a compressed line of more than `MOST_LINE_BYTES`."""
    with open_corpus_file(path) as file, progress_bar(f"reading {path.name}", path.stat().st_size, "B") as bar:
        place = 0
        for number, raw in enumerate(file_lines(file, bounded=path.suffix == ".gz"), start=1):
            if len(raw) > MOST_LINE_BYTES:
                most = f"{MOST_LINE_BYTES:,} bytes"
                raise TrainingError(f"{path} has a line of more than {most}, line {number}: put one text in a line.")
            line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
            yield number, line.removesuffix(b"\n").removesuffix(b"\r")
            if number % PROGRESS_LINES == 0:  # in bytes of the file, compressed or not
                before, place = place, os.lseek(file.fileno(), 0, os.SEEK_CUR)
                bar.update(place - before)


def file_lines(file: BinaryIO, *, bounded: bool = False) -> Iterable[bytes]:
    """The lines from the place of a file on, with their ends; those of old Macs end with CR, which a pipe does not
    show in advance. bounded: to a little more than `MOST_LINE_BYTES`; a file that is not compressed takes the room of
    its lines, and is read faster without a bound."""
    if file.seekable():
        place = file.tell()
        head = file.read(LOOKED_AT_BYTES)
        file.seek(place)
        if b"\r" in head and b"\n" not in head:
            return _lines_ending_with_cr(file)
    return iter(partial(file.readline, MOST_LINE_BYTES + 1), b"") if bounded else file


def _lines_ending_with_cr(file: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while chunk := file.read(LOOKED_AT_BYTES):
        *lines, rest = (rest + chunk).split(b"\r")
        yield from (line + b"\n" for line in lines)
        if len(rest) > MOST_LINE_BYTES:
            break
    if rest:
        yield rest


def decode_lines(data: bytes, path: Path, first: int = 1) -> str:
    """Decodes UTF-8. first: the number of the first line. TrainingError names the line of invalid UTF-8."""
    if first == 1 and data.startswith(DOCUMENTS):
        way = "save it as plain text, a table as .csv; a server translates .docx and .odt (POST /translate_file)"
        raise TrainingError(f"{path} is a document or an archive, not a text: {way}.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if first == 1 and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            way = f"convert it (iconv -f UTF-16 -t UTF-8 {path.name}), or save it as UTF-8"
            raise TrainingError(f"{path} is UTF-16, and texts are read as UTF-8: {way}.") from None
        line = first + data.count(b"\n", 0, error.start)
        raise TrainingError(f"{path} is not valid UTF-8: line {line} has a broken character; convert it.") from None
    if "\0" in text:
        line = first + text.count("\n", 0, text.index("\0"))
        raise TrainingError(f"{path} holds a NUL character in line {line}: is it a text file?")
    return text


def stem_suffix(path: Path) -> str:
    """The suffix of the format, in lower case: ".tsv" of "pairs.TSV.gz"."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


CLEARLY = 0.8  # ratio by which a shift must improve the length fit before its line is named
WORST = 3.0  # maximum cost of a line: bounds outliers, and blank lines against texts


def read_moses(source: Path, target: Path, *, skip_malformed: bool = False) -> Iterator[Row | LeftOutRow]:
    """Pairs of parallel lines. TrainingError if the files differ in length, with the likely line of divergence."""
    for line, other in zip_longest(readable_lines(source, skip_malformed), readable_lines(target, skip_malformed)):
        if line is None or other is None:
            raise _differing_lengths(source, target)
        if isinstance(line, LeftOutRow) or isinstance(other, LeftOutRow):
            yield line if isinstance(line, LeftOutRow) else cast(LeftOutRow, other)
        else:
            yield *line, other[1]


def _differing_lengths(source: Path, target: Path) -> TrainingError:
    lengths, others = map(_line_lengths, (source, target))
    counts = f"{source} has {pluralize(len(lengths), 'line')} and {target} has {len(others):,}"
    most, place = min(len(lengths), len(others)) + 1, parting(lengths, others)
    where = f"most likely at line {place:,}" if place < most else f"at line {most:,} at the latest"
    return TrainingError(f"{counts}: line n of one must translate line n of the other, and they part {where}.")


def _line_lengths(path: Path) -> NDArray[np.int64]:
    return np.fromiter((len(raw.decode(errors="replace")) for _, raw in raw_lines(path)), np.int64)


def parting(lengths: NDArray[np.int64], others: NDArray[np.int64]) -> int:
    """The line, from 1, where the longer file most likely has its surplus lines. lengths, others: characters of the
    lines of two files. Translations have similar lengths (Gale and Church 1993), so it is the split where "aligned
    before, shifted behind" fits the lengths best; the first line behind the shorter file's end unless another fits
    clearly better."""
    longer, shorter = (lengths, others) if len(lengths) > len(others) else (others, lengths)
    long, short = np.log1p(longer.astype(float)), np.log1p(shorter.astype(float))
    surplus = len(long) - len(short)
    if not len(short):
        return 1
    typical = float(np.median(long)) - float(np.median(short))
    before = _cost(long[: len(short)] - short - typical, long[: len(short)], short)
    behind = _cost(long[surplus:] - short - typical, long[surplus:], short)
    # costs[k]: lines 1..k aligned, the rest shifted
    costs = np.concatenate([[0.0], np.cumsum(before)]) + np.concatenate([np.cumsum(behind[::-1])[::-1], [0.0]])
    best = int(np.argmin(costs))
    tail = slice(best, None)
    clear = best < len(short) and behind[tail].mean() < CLEARLY * before[tail].mean()
    return (best if clear else len(short)) + 1


def _cost(difference: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    cost: NDArray[np.float64] = np.minimum(np.abs(difference), WORST)
    cost[(a == 0) != (b == 0)] = WORST
    return cost
