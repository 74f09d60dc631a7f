"""The table of settings in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import Settings
from app.settings_table import END, START, main, table, with_table
from tests.readme import ROOT


def test_documented_settings_tables_are_current() -> None:
    documents = [
        path
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"))
        if f"\n{START}\n" in path.read_text(encoding="utf-8")
    ]
    assert ROOT / "README.md" in documents or documents
    for path in documents:
        assert main([str(path), "--check"]) == 0, f"python -m app.settings_table {path.relative_to(ROOT)}"


def test_table_has_a_row_for_each_setting() -> None:
    rows = table().splitlines()[2:]
    assert len(rows) == len(Settings.model_fields)
    assert rows[0] == "| `PARLANCE_HOST` | `127.0.0.1` | Address to listen on; 0.0.0.0 is every IPv4 one. |"


def test_table_is_written_between_its_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.md"
    file.write_text(f"# A\n\n{START}\nold\n{END}\n\nafter\n")
    assert main([str(file), "--check"]) == 1
    assert main([str(file)]) == 0
    assert file.read_text() == f"# A\n\n{START}\n{table()}{END}\n\nafter\n"
    assert main([str(file), "--check"]) == 0
    file.write_text("nothing")
    assert main([str(file)]) == 2
    assert f"It needs the lines {START} and {END}" in capsys.readouterr().err
    assert with_table(f"{START}\n{END}") == f"{START}\n{table()}{END}"
