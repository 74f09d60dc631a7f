"""Tables of pairs: tab-separated columns, and CSV as spreadsheets save it (RFC 4180; commas, semicolons or tabs)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from models.language_names import ENGLISH_NAMES, code_of_name
from training.config.corpus_languages import LanguageCodes, base_language, find_language
from training.data.corpus_files import readable_lines, stem_suffix
from training.data.sentence_pairs import CorpusNote, LeftOutRow, Row, malformed, one_line, shortened
from training.errors import TrainingError

CSV = ".csv"
Columns = tuple[int, int]  # source and target, from 1
_DELIMITERS = "\t;,"
_LOOKED_AT = 100  # records that show the delimiter and the quotes
_STATED = re.compile('"?sep=(.)"?', re.IGNORECASE)
_QUOTED = re.compile('"(?:[^"]|"")*"')
_TITLES = (
    ("source", "target"),
    ("src", "trg"),
    ("src", "tgt"),
    ("quelle", "ziel"),
    ("quelltext", "zieltext"),
    ("original", "übersetzung"),
    ("original", "translation"),
    ("原文", "译文"),
)


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
) -> Iterator[Row | LeftOutRow | CorpusNote]:
    """Skips blank lines. Without `columns` the first line decides, and every line must match its layout. The first line
    may hold titles: source and target, or the two languages. TrainingError if the layout is ambiguous, or if a line has
    another number of columns and is not skipped."""
    is_csv, width = stem_suffix(path) == CSV, None
    records = _csv_records(path, skip_malformed) if is_csv else _tab_separated(path, skip_malformed)
    beginning: list[_Record | LeftOutRow | CorpusNote] = []
    for record in records:
        beginning.append(record)
        if isinstance(record, _Record):
            if titled := _titled_columns(record.cells, languages):
                columns, width = (columns, None) if columns else (titled, len(record.cells))
                shown = ", ".join(shortened(cell.strip(), 20) for cell in record.cells[:6])
                beginning[-1] = CorpusNote(f"begins with titles, which are no pair: {shown}")
            elif languages and not columns and _titles_of_others(record.cells):
                wanted = " and ".join(languages)
                raise TrainingError(
                    f"{path} begins with the titles {', '.join(record.cells)}, and {wanted} are not both among them:"
                    " check --source and --target, or say by --columns 1,2 which columns hold them."
                )
            break
    yield from _pairs(path, chain(beginning, records), columns, width, skip_malformed)


def _pairs(
    path: Path,
    records: Iterable[_Record | LeftOutRow | CorpusNote],
    columns: Columns | None,
    width: int | None,
    skip_malformed: bool,
) -> Iterator[Row | LeftOutRow | CorpusNote]:
    """width: of every record, if titles or the first record decided the columns."""
    for record in records:
        if not isinstance(record, _Record):
            yield record
            continue
        number, cells, text = record
        if columns is None and not (skip_malformed and len(cells) == 1):
            columns, width = _choose(path, record), len(cells)
        if columns is None or (len(cells) != width if width else len(cells) < max(columns)):
            problem = _other_width(path, record, columns or (1, 2), width if columns else 2)
            if not skip_malformed:
                raise problem
            yield malformed(number, "number of columns", text, problem)
        else:
            yield number, cells[columns[0] - 1], cells[columns[1] - 1]


def _tab_separated(path: Path, skip_malformed: bool) -> Iterator[_Record | LeftOutRow | CorpusNote]:
    """Quotes are text, except those of a spreadsheet: around every cell, or around one with quotes, then doubled."""
    beginning, lines = _lines(path, skip_malformed)
    every = _all_quoted(beginning)
    said = False
    for line in lines:
        if isinstance(line, LeftOutRow):
            yield line
        elif line[1].strip():
            cells = line[1].split("\t")
            if '"' in line[1]:
                unquoted = [_unquoted(cell, every) for cell in cells]
                if unquoted != cells and not said:
                    said = True
                    yield CorpusNote(f"has cells in a spreadsheet's quotes (line {line[0]}), which are left out")
                cells = unquoted
            yield _Record(line[0], cells, line[1])


def _all_quoted(lines: Sequence[str]) -> bool:
    cells = [cell for line in lines for cell in line.split("\t")]
    return bool(cells) and all(map(_QUOTED.fullmatch, cells))


def _unquoted(cell: str, every: bool) -> str:
    inner = cell[1:-1]
    return inner.replace('""', '"') if (every or '""' in inner) and _QUOTED.fullmatch(cell) else cell


def _lines(path: Path, skip_malformed: bool) -> tuple[list[str], Iterator[tuple[int, str] | LeftOutRow]]:
    """The first lines that are not blank, and all lines: a pipe can be read only once."""
    lines, first = readable_lines(path, skip_malformed), list[tuple[int, str] | LeftOutRow]()
    fault: TrainingError | None = None
    try:
        first.extend(islice(lines, _LOOKED_AT))
    except TrainingError as error:  # its turn comes after the lines before
        fault = error

    def all_lines() -> Iterator[tuple[int, str] | LeftOutRow]:
        yield from first
        if fault is not None:
            raise fault
        yield from lines

    readable = (line[1] for line in first if not isinstance(line, LeftOutRow))
    return [line for line in readable if line.strip()], all_lines()


def _csv_records(path: Path, skip_malformed: bool) -> Iterator[_Record | LeftOutRow | CorpusNote]:
    """Records, which may span lines; a line break inside a cell becomes a space. In the order of their first lines."""
    beginning, all_lines = _lines(path, skip_malformed)
    delimiter, stated = _delimiter(beginning)
    if stated:
        yield CorpusNote(f"states its delimiter in its first line: {shortened(stated, 20)}")
    lines: list[tuple[int, str]] = []  # of the current record
    unreadable: list[LeftOutRow] = []

    def texts() -> Iterator[str]:
        for line in all_lines:
            if isinstance(line, LeftOutRow):
                unreadable.append(line)
            elif not (stated and line[0] == 1):
                lines.append(line)
                yield f"{line[1]}\n"

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
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


def _delimiter(beginning: Sequence[str]) -> tuple[str, str]:
    """The delimiter, and the line that states it as Excel does (sep=;), or "". Else the one that splits most records
    into as many cells as the first, and at least two; a tab before a semicolon before a comma, which sentences contain
    too. Records that the csv module refuses do not count."""
    sample = [f"{line}\n" for line in beginning]
    if sample and (stated := _STATED.fullmatch(sample[0].strip("\n"))):
        return stated[1], stated[0]

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

    return max(_DELIMITERS, key=agreeing), ""


def _titled_columns(cells: Sequence[str], languages: LanguageCodes | None) -> Columns | None:
    """The columns that titles name as source and target, or by the code or the name of their languages; None if the
    cells are no such titles."""
    titles = [cell.strip().lower() for cell in cells]
    for first, second in _TITLES:
        if first in titles and second in titles:
            return titles.index(first) + 1, titles.index(second) + 1
    codes = tuple(_titled_language(title) for title in titles)
    source, target = (find_language(language, codes) if language else None for language in languages or ("", ""))
    if not source or not target or source == target:
        return None
    return codes.index(source) + 1, codes.index(target) + 1


def _titles_of_others(cells: Sequence[str]) -> bool:
    codes = [_titled_language(cell.strip().lower()) for cell in cells]
    return all(codes) and len(codes) == len(set(codes)) > 1


def _titled_language(title: str) -> str:
    """The code of a column's title, "" for none."""
    if base_language(title) in ENGLISH_NAMES:
        return title
    return code_of_name(title) or ""


def _choose(path: Path, record: _Record) -> Columns:
    number, cells, _ = record
    if len(cells) == 2:
        return 1, 2
    if len(cells) == 1:
        raise _other_width(path, record, (1, 2), 2)
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


def _other_width(path: Path, record: _Record, columns: Columns, width: int | None) -> TrainingError:
    count, is_csv = len(record.cells), stem_suffix(path) == CSV
    has = f"{path} line {record.number} has {count} column{'' if count == 1 else 's'}"
    if not is_csv and any(cell.startswith('"') and cell.count('"') % 2 for cell in record.cells):
        return TrainingError(f"{has}, and a quote that does not close: a spreadsheet's table is read as .csv.")
    if width == 2:
        between = "one comma, semicolon or tab" if is_csv else "one tab"
        files = (
            "; two files of parallel lines are named with a comma between: a.de,a.en"
            if count == 1 and not is_csv
            else ""
        )
        return TrainingError(f"{has}; a pair is two texts with {between} between{files}.")
    if width:
        return TrainingError(f"{has} where the lines before have {width}.")
    return TrainingError(f"{has}; --columns {columns[0]},{columns[1]} asks for column {max(columns)}.")
