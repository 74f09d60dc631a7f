"""A glossary's entries as tab- or comma-separated lines: source term, target term."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Literal

from app.engine.errors import InvalidRequest

TermsFormat = Literal["tsv", "csv"]


def parsed(lines: str, form: TermsFormat, field: str = "entries") -> dict[str, str]:
    """Entries by their source term. Empty lines are skipped; of a csv line with four cells, as DeepL's site writes
    them, the last two (its languages) are too. `InvalidRequest` names the line that cannot be read."""
    rows = _tabs(lines) if form == "tsv" else csv.reader(io.StringIO(lines), skipinitialspace=True, strict=True)
    entries: dict[str, str] = {}
    try:
        for number, row in enumerate(rows, 1):
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) != 2 and not (form == "csv" and len(cells) == 4):
                between = "a tab" if form == "tsv" else "a comma"
                raise InvalidRequest(
                    f'Line {number} of "{field}" has {len(cells)} cells; write a source term, {between}, and its'
                    " target term.",
                    field=field,
                )
            if cells[0] in entries:
                raise InvalidRequest(
                    f'Line {number} of "{field}" has a source term that an earlier line has; leave one out.',
                    field=field,
                )
            entries[cells[0]] = cells[1]
    except csv.Error as error:
        raise InvalidRequest(f'"{field}" is not csv ({error}); quote cells as RFC 4180 says.', field=field) from None
    return entries


def as_tsv(entries: Mapping[str, str]) -> str:
    return "\n".join(f"{source}\t{target}" for source, target in entries.items())


def _tabs(lines: str) -> list[list[str]]:
    return [line.split("\t") for line in lines.replace("\r\n", "\n").split("\n")]
