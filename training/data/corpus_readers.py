"""Readers of corpora: text files, JSONL, tab-separated columns, Moses' parallel files, Hugging Face data sets.

Every fault of a file is one sentence that names the file and the line.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from training.data.sentence_pairs import Row
from training.errors import TrainingError, pluralize

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextlib.contextmanager
def open_corpus_file(path: Path) -> Iterator[BinaryIO]:
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
    with open_corpus_file(path) as file:
        for number, raw in enumerate(file, start=1):
            line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
            yield number, decode_lines(line.removesuffix(b"\n").removesuffix(b"\r"), path, number)


def decode_lines(data: bytes, path: Path, first: int = 1) -> str:
    """first: the number of the first line. TrainingError names the line of what is no text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = first + data.count(b"\n", 0, error.start)
        raise TrainingError(f"{path} is not valid UTF-8: line {line} has a broken character; convert it.") from None
    if "\0" in text:
        line = first + text.count("\n", 0, text.index("\0"))
        raise TrainingError(f"{path} holds a NUL character in line {line}: is it a text file?")
    return text


def stem_suffix(path: Path) -> str:
    """The suffix that names the format, in lower case: ".tsv" of "pairs.TSV.gz"."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


@lru_cache(maxsize=1024)  # the lines of a file have the same few sets of codes
def find_language(wanted: str, present: tuple[str, ...]) -> str | None:
    """The code in `present` that means `wanted`: the same but for case and hyphens, else the bare language,
    else, for a bare `wanted`, the first of its regions."""
    codes = {_normal(code): code for code in reversed(present)}  # of two spellings the first
    normal = _normal(wanted)
    language = normal.partition("-")[0]
    for candidate in (normal, language):
        if candidate in codes:
            return codes[candidate]
    if normal != language:
        return None
    return next((codes[code] for code in reversed(codes) if code.partition("-")[0] == language), None)


def _normal(code: str) -> str:
    return code.strip().lower().replace("_", "-")


Languages = tuple[str, str]  # of the source and of the target
Record = Mapping[str, Any]
"""A JSON object, or a row of a data set."""
PlacedRecord = tuple[int, str, Record]  # line or row; where it stands, for a message


def read_records(records: Iterable[PlacedRecord], languages: Languages | None) -> Iterator[Row]:
    for number, where, record in records:
        yield number, *pair_of(record, languages, where)


def json_records(path: Path) -> Iterator[PlacedRecord]:
    """Blank lines are skipped. TrainingError for a line that is no JSON object."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            example = '{"source": "…", "target": "…"}'
            raise TrainingError(
                f"{where} is not JSON ({error}): every line must be one object, such as {example}."
            ) from None
        if not isinstance(record, dict):
            raise TrainingError(f"{where} is a JSON {_kind(record)}: every line must be one object.")
        yield number, where, record


def pair_of(record: Record, languages: Languages | None, where: str) -> tuple[str, str]:
    """Source and target of one record. TrainingError, beginning with `where`, if it has none."""
    inner = record.get("translation")
    for candidate in (inner, record) if isinstance(inner, Mapping) else (record,):
        source, target = (find_language(code, tuple(candidate)) for code in languages or ("", ""))
        if source and target and source != target:
            return text_of(candidate, source, where), text_of(candidate, target, where)
    if "source" in record and "target" in record:
        return text_of(record, "source", where), text_of(record, "target", where)
    there = ", ".join(map(repr, [*record, *(inner if isinstance(inner, Mapping) else ())][:8])) or "none"
    named = f"{languages[0]!r} and {languages[1]!r}, or " if languages else ""
    raise TrainingError(f"{where} has the keys {there}; a pair needs {named}'source' and 'target'.")


def text_of(record: Record, key: str, where: str) -> str:
    """The text under a key, on one line; null is an empty text."""
    text = record[key]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TrainingError(f"{where} has a {_kind(text)} under {key!r}; it must be a text.")
    check_characters(text, where)
    return one_line(text)


def check_characters(text: str, where: str) -> None:
    """JSON can spell characters that no UTF-8 file can hold."""
    if "\0" in text:
        raise TrainingError(f"{where} holds a NUL character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TrainingError(f"{where} has a broken character: half of a surrogate pair.") from None


def one_line(text: str) -> str:
    """White space with a line break in it becomes one space: a sentence is one line in every other format."""
    return re.sub(r"\s*[\r\n]\s*", " ", text) if "\n" in text or "\r" in text else text


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return kinds.get(type(value), "null")


Columns = tuple[int, int]  # of the source and of the target, from 1
CELL_SHOWN = 20  # characters of a column


def read_tsv(path: Path, columns: Columns | None = None) -> Iterator[Row]:
    """Blank lines are skipped. Without `columns` the first line decides and every line must be like it.

    TrainingError if the layout leaves a choice, or a line has another number of columns.
    """
    width = None  # of every line, where the first decided
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        cells = line.split("\t")
        if columns is None:
            columns, width = _choose(path, number, cells), len(cells)
        if len(cells) != width if width else len(cells) < max(columns):
            raise _other_width(path, number, len(cells), columns, width)
        yield number, cells[columns[0] - 1], cells[columns[1] - 1]


def _choose(path: Path, number: int, cells: list[str]) -> Columns:
    if len(cells) == 2:
        return 1, 2
    if len(cells) == 1:
        raise _other_width(path, number, 1, (1, 2), 2)
    ids = [cell.strip().isdecimal() for cell in cells]
    if ids == [True, False, True, False]:
        return 2, 4
    if len(cells) == 3 and "attribution:" in cells[2].lower():
        return 1, 2
    cells = [cell if len(cell) <= CELL_SHOWN else cell[: CELL_SHOWN - 1] + "…" for cell in cells]
    shown = ", ".join(f"{place} {cell!r}" for place, cell in enumerate(cells[:6], start=1))
    raise TrainingError(
        f"{path} line {number} has {len(cells)} columns ({shown}{', …' if len(cells) > 6 else ''}): say which hold"
        " the source and the target, such as --columns 1,2."
    )


def _other_width(path: Path, number: int, count: int, columns: Columns, width: int | None) -> TrainingError:
    has = f"{path} line {number} has {count} column{'' if count == 1 else 's'}"
    if width == 2:
        return TrainingError(f"{has}; a pair is two texts with one tab between.")
    if width:
        return TrainingError(f"{has} where the lines before have {width}.")
    return TrainingError(f"{has}; --columns {columns[0]},{columns[1]} asks for column {max(columns)}.")


CLEARLY = 0.8  # the lengths must fit so much better behind a shift before a line is named
WORST = 3.0  # of one line's cost: an outlier, or a blank line against a text, counts no more than this


def read_moses(source: Path, target: Path) -> Iterator[Row]:
    """TrainingError if the files have unequal numbers of lines: it names where they most likely part."""
    for line, other in zip_longest(numbered_lines(source), numbered_lines(target)):
        if line is None or other is None:
            raise _unequal(source, target)
        yield *line, other[1]


def _unequal(source: Path, target: Path) -> TrainingError:
    texts, others = ([line for _, line in numbered_lines(path)] for path in (source, target))
    counts = f"{source} has {pluralize(len(texts), 'line')} and {target} has {len(others):,}"
    most = min(len(texts), len(others)) + 1
    line = parting(texts, others)
    where = f"most likely at line {line:,}" if line < most else f"at line {most:,} at the latest"
    return TrainingError(f"{counts}: line n of one must translate line n of the other, and they part {where}.")


def parting(texts: Sequence[str], others: Sequence[str]) -> int:
    """The line from 1 from which the longer file is ahead by what it has too many.

    Translations have similar lengths (Gale and Church 1993), so the line is the one where "aligned before, shifted
    behind" fits the lengths best; the one behind the shorter file's end unless another fits clearly better.
    """
    longer, shorter = (texts, others) if len(texts) > len(others) else (others, texts)
    long = np.log1p(np.fromiter(map(len, longer), float))
    short = np.log1p(np.fromiter(map(len, shorter), float))
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


HUGGINGFACE_PREFIX = "hf:"
SPLIT = re.compile(r"(train|validation|valid|val|dev|test)(\[.*\])?")


def dataset_records(argument: str) -> Iterator[PlacedRecord]:
    """The rows of a data set."""
    name, config, split = parse_dataset_name(argument)
    try:
        import datasets
    except ImportError:
        raise TrainingError(f"{argument} needs the datasets library: pip install datasets.") from None
    try:
        data_set = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # the library raises errors of many kinds, its own and those of its file readers
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise TrainingError(f"{argument} cannot be loaded ({reason}).") from error
    for number, record in enumerate(data_set, start=1):
        yield number, f"{argument} row {number}", record


def parse_dataset_name(argument: str) -> tuple[str, str | None, str]:
    """(name, config, split). A single word behind the name is a split if it is called like one, else a config;
    the split is "train" unless another is named, and may be sliced: hf:NAME:train[:1000]."""
    name, *rest = re.split(r":(?![^\[]*\])", argument.removeprefix(HUGGINGFACE_PREFIX))
    if not name or len(rest) > 2 or "" in rest:
        raise TrainingError(f"{argument} is no data set's name: write hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT.")
    if len(rest) == 2:
        return name, rest[0], rest[1]
    if rest and SPLIT.fullmatch(rest[0]):
        return name, None, rest[0]
    return name, rest[0] if rest else None, "train"
