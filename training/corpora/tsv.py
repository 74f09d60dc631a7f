"""Columns between tabs: two, or those of Tatoeba's downloads and of Anki decks made from them.

Tatoeba's sentence pairs: id, text, id, text. Anki decks (manythings.org): text, text, attribution.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.corpora.files import numbered_lines
from training.corpora.pairs import Row
from training.errors import TrainingError

Columns = tuple[int, int]  # of the source and of the target, from 1
SHOWN = 20  # characters of a column


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
    shown = ", ".join(f"{place} {_short(cell)!r}" for place, cell in enumerate(cells[:6], start=1))
    raise TrainingError(
        f"{path} line {number} has {len(cells)} columns ({shown}{', …' if len(cells) > 6 else ''}): say which hold"
        " the source and the target, such as --columns 1,2."
    )


def _short(cell: str) -> str:
    return cell if len(cell) <= SHOWN else cell[: SHOWN - 1] + "…"


def _other_width(path: Path, number: int, found: int, columns: Columns, width: int | None) -> TrainingError:
    has = f"{path} line {number} has {found} column{'' if found == 1 else 's'}"
    if width == 2:
        return TrainingError(f"{has}; a pair is two texts with one tab between.")
    if width:
        return TrainingError(f"{has} where the lines before have {width}.")
    return TrainingError(f"{has}; --columns {columns[0]},{columns[1]} asks for column {max(columns)}.")
