"""python -m app.settings_table FILE: writes the table of all settings between two marks of a Markdown file.

    <!-- settings -->
    …
    <!-- /settings -->

`--check` writes nothing, and ends with 1 where the file's table is another."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from app.settings import PREFIX, Settings

START, END = "<!-- settings -->", "<!-- /settings -->"


def table() -> str:
    """A row for each setting, in the order of `app/settings.py`."""
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        rows.append(f"| `{PREFIX}{name.upper()}` | `{field.default}` | {meaning} |")
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """The document with the table as it is now; ValueError where it has no place for it."""
    place = re.compile(rf"^{START}\n.*?^{END}$", re.MULTILINE | re.DOTALL)
    if len(place.findall(text)) != 1:
        raise ValueError(f"It needs the lines {START} and {END}, once, in this order.")
    return place.sub(lambda _: f"{START}\n{table()}{END}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m app.settings_table", description="Writes the table of settings.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it is not up to date")
    given = parser.parse_args(arguments)
    old = given.file.read_text(encoding="utf-8")
    try:
        new = with_table(old)
    except ValueError as error:
        print(f"{given.file}: {error}", file=sys.stderr)
        return 2
    if given.check:
        return int(old != new)
    given.file.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
