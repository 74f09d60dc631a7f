"""Tables of pairs: tab-separated columns, and CSV as spreadsheets save it (RFC 4180; commas, semicolons or tabs)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from models.language_names import ENGLISH_NAMES, code_of_name
from training.config.corpus_languages import LanguageCodes, find_language
from training.data.corpus_files import readable_lines, stem_suffix
from training.data.sentence_pairs import LeftOutRow, Row, malformed, one_line, shortened
from training.errors import TrainingError

CSV = ".csv"
Columns = tuple[int, int]  # source and target, from 1
_DELIMITERS = "\t;,"
_LOOKED_AT = 100  # records that show the delimiter


class _Record(NamedTuple):
    """number: of its first line; text: as in the file, without its line end."""

    number: int
    cells: list[str]
    text: str


def read_table(
    path: Path,
    columns: Columns | None = None,
    languages: LanguageCodes | None = None,
    *,
    skip_malformed: bool = False,
) -> Iterator[Row | LeftOutRow]:
    """Skips blank lines. Without `columns` the first line decides, and every line must match its layout; the first line
    of a CSV may hold titles: source and target, or the two languages. TrainingError if the layout is ambiguous, or if a
    line has another number of columns and is not skipped."""
    if stem_suffix(path) != CSV:
        yield from _pairs(path, _tab_separated(path, skip_malformed), columns, None, skip_malformed)
        return
    records, width = _csv_records(path, skip_malformed), None
    beginning: list[_Record | LeftOutRow] = []
    for record in records:
        beginning.append(record)
        if isinstance(record, _Record):
            if titled := _titled_columns(record.cells, languages):
                columns, width = (columns, None) if columns else (titled, len(record.cells))
                beginning.pop()
            break
    yield from _pairs(path, chain(beginning, records), columns, width, skip_malformed)


def _pairs(
    path: Path,
    records: Iterable[_Record | LeftOutRow],
    columns: Columns | None,
    width: int | None,
    skip_malformed: bool,
) -> Iterator[Row | LeftOutRow]:
    """width: of every record, if titles or the first record decided the columns."""
    for record in records:
        if isinstance(record, LeftOutRow):
            yield record
            continue
        number, cells, text = record
        if columns is None and not (skip_malformed and len(cells) == 1):
            columns, width = _choose(path, number, cells), len(cells)
        if columns is None or (len(cells) != width if width else len(cells) < max(columns)):
            problem = _other_width(path, number, len(cells), columns or (1, 2), width if columns else 2)
            if not skip_malformed:
                raise problem
            yield malformed(number, "number of columns", text, problem)
        else:
            yield number, cells[columns[0] - 1], cells[columns[1] - 1]


def _tab_separated(path: Path, skip_malformed: bool) -> Iterator[_Record | LeftOutRow]:
    for line in readable_lines(path, skip_malformed):
        if isinstance(line, LeftOutRow):
            yield line
        elif line[1].strip():
            yield _Record(line[0], line[1].split("\t"), line[1])


def _csv_records(path: Path, skip_malformed: bool) -> Iterator[_Record | LeftOutRow]:
    """Records, which may span lines; a line break inside a cell becomes a space. In the order of their first lines."""
    lines: list[tuple[int, str]] = []  # of the current record
    unreadable: list[LeftOutRow] = []

    def texts() -> Iterator[str]:
        for line in readable_lines(path, skip_malformed):
            if isinstance(line, LeftOutRow):
                unreadable.append(line)
            else:
                lines.append(line)
                yield f"{line[1]}\n"

    reader = csv.reader(texts(), delimiter=_delimiter(path), strict=True)
    while True:
        lines.clear()
        fault: csv.Error | None = None
        cells: list[str] | None = None
        try:
            cells = next(reader, None)
        except csv.Error as error:
            fault = error
        if not lines:
            yield from unreadable
            return
        start, text = lines[0][0], "\n".join(line for _, line in lines)
        yield from (row for row in unreadable if row.number < start)
        if fault is not None:
            reason, sentence = _csv_fault(fault)
            problem = TrainingError(f"{path} line {start} {sentence}")
            if not skip_malformed:
                raise problem
            yield malformed(start, reason, text, problem)
        elif cells and any(cell.strip() for cell in cells):
            yield _Record(start, [one_line(cell) for cell in cells], text)
        yield from (row for row in unreadable if row.number > start)  # in the middle of the record
        unreadable.clear()


def _csv_fault(error: csv.Error) -> tuple[str, str]:
    """What is malformed, and the predicate of a sentence about the record's line."""
    said = str(error)
    if said.startswith("new-line character"):
        way = "end lines with LF or CRLF, and put a cell of several lines in quotes"
        return "carriage return", f"has a carriage return (CR) within a cell without quotes: {way}."
    if said.startswith("field larger"):  # than the bound of the csv module, which also ends a quote that never closes
        most = f"{csv.field_size_limit():,} characters"
        return "cell too long", f"has a cell of more than {most}: put one text in a cell, and close each quote."
    way = 'a quote inside a quoted cell is written twice, as in "say ""hello"""'
    return "broken quotes", f"has quotes that do not close ({said}): {way}."


def _delimiter(path: Path) -> str:
    """The one that splits most records into as many cells as the first, and at least two; a tab before a semicolon
    before a comma, which sentences contain too. Records that the csv module refuses do not count."""
    readable = (line[1] for line in readable_lines(path, skip=True) if not isinstance(line, LeftOutRow))
    sample = [f"{line}\n" for line in islice(readable, _LOOKED_AT) if line.strip()]

    def agreeing(delimiter: str) -> int:
        reader, widths = csv.reader(sample, delimiter=delimiter), list[int]()
        while True:
            try:
                cells = next(reader, None)
            except csv.Error:
                continue
            if cells is None:
                return sum(width == widths[0] > 1 for width in widths)
            widths += [len(cells)] if cells else []

    return max(_DELIMITERS, key=agreeing)


def _titled_columns(cells: Sequence[str], languages: LanguageCodes | None) -> Columns | None:
    """The columns that titles name as source and target, or by the code or the name of their languages; None if the
    cells are no such titles."""
    titles = [cell.strip().lower() for cell in cells]
    if "source" in titles and "target" in titles:
        return titles.index("source") + 1, titles.index("target") + 1
    codes = tuple(_titled_language(title) for title in titles)
    source, target = (find_language(language, codes) for language in languages or ("", ""))
    if not source or not target or source == target:
        return None
    return codes.index(source) + 1, codes.index(target) + 1


def _titled_language(title: str) -> str:
    """The code of a column's title, "" for none."""
    if title.replace("_", "-").partition("-")[0] in ENGLISH_NAMES:
        return title
    return code_of_name(title) or ""


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
    shown = ", ".join(f"{place} {shortened(cell, 20)!r}" for place, cell in enumerate(cells[:6], start=1))
    raise TrainingError(
        f"{path} line {number} has {len(cells)} columns ({shown}{', …' if len(cells) > 6 else ''}): say which hold"
        " the source and the target, such as --columns 1,2."
    )


def _other_width(path: Path, number: int, count: int, columns: Columns, width: int | None) -> TrainingError:
    has = f"{path} line {number} has {count} column{'' if count == 1 else 's'}"
    if width == 2:
        between = "one comma, semicolon or tab" if stem_suffix(path) == CSV else "one tab"
        return TrainingError(f"{has}; a pair is two texts with {between} between.")
    if width:
        return TrainingError(f"{has} where the lines before have {width}.")
    return TrainingError(f"{has}; --columns {columns[0]},{columns[1]} asks for column {max(columns)}.")
