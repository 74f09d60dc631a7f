from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.storage.data_folder import data_folder_problem


def test_folder_that_is_there_or_can_be_made_is_no_problem(tmp_path: Path) -> None:
    assert data_folder_problem(tmp_path) is None
    assert data_folder_problem(tmp_path / "a" / "b") is None
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"


@pytest.mark.parametrize("place", ["file", "file/below", "dangling", "/proc", "/proc/below"])
def test_folder_that_cannot_be_written_is_a_problem(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    problem = data_folder_problem(tmp_path / place)
    assert problem is not None
    assert problem.startswith(
        "Glossaries, documents and translated files cannot be kept: PARLANCE_DATA is"
        f" {tmp_path / place}, which cannot be written ("
    )
    assert problem.endswith("); name a folder that can.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_folder_of_somebody_else_is_a_problem(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert data_folder_problem(tmp_path) is not None
    assert data_folder_problem(tmp_path / "below") is not None
