"""Files of one JSON object a line, each with the update that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Journal:
    """Rows are appended as they come; a resumed run forgets those of updates that are about to happen again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, row: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def forget(self, again: Callable[[dict[str, Any]], bool]) -> None:
        """The rows that are about to come again; a line that a kill has torn goes as well."""
        if self.path.exists():
            lines = self.path.read_text(encoding="utf-8").split("\n")
            rows = [(line, _row(line)) for line in lines]
            aside = self.path.with_name(f"{self.path.name}.new")  # a kill leaves the old lines or the new ones
            kept = [line for line, row in rows if row is not None and not again(row)]
            aside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
            aside.replace(self.path)

    def rows(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").split("\n") if line]


def _row(line: str) -> dict[str, Any] | None:
    """None for a line that is not whole."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
