"""Lines that a kill or a full disk has torn, and a kill while a resume forgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.runs import Killed
from training import snapshot
from training.errors import os_error_reason
from training.report.progress_report import append_row, read_rows, remove_rows


def is_later(row: dict[str, Any]) -> bool:
    return bool(row["update"] > 2)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    journal = tmp_path / "metrics.jsonl"
    for update in (1, 2, 3):
        append_row(journal, {"update": update, "text": "{}"})
    return journal


def test_torn_line_is_removed_even_if_it_ends_like_a_complete_one(journal: Path) -> None:
    with journal.open("a") as file:
        file.write('{"update": 2, "text": "{}')
    remove_rows(journal, is_later)
    assert [row["update"] for row in read_rows(journal)] == [1, 2]


@pytest.mark.parametrize("moment", ["write_text", "replace"])
def test_kill_while_removing_rows_loses_nothing(journal: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Before the new file has its name, and in the middle of writing it."""

    def dying(path: Path, *given: Any, **options: Any) -> None:
        if moment == "write_text":
            path.write_bytes(b'{"upd')
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, moment, dying)
        with pytest.raises(Killed):
            remove_rows(journal, is_later)
    assert [row["update"] for row in read_rows(journal)] == [1, 2, 3]
    remove_rows(journal, is_later)
    assert [row["update"] for row in read_rows(journal)] == [1, 2]
    assert [path.name for path in journal.parent.iterdir()] == ["metrics.jsonl"]


def test_snapshot_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: Path, *given: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)
    with pytest.raises(OSError) as excinfo:
        snapshot.write(tmp_path / "state.pt", {})
    expected = f"{tmp_path}/state.pt may not be used: permission denied; change its rights or choose another place"
    assert os_error_reason(excinfo.value) == expected


def test_save_error_without_errno_keeps_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: Any) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(snapshot.torch, "save", failing)
    with pytest.raises(OSError) as excinfo:
        snapshot.write(tmp_path / "state.pt", {})
    assert os_error_reason(excinfo.value) == f"{tmp_path}/state.pt could not be saved (no such thing)"
