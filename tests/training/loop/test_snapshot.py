"""Snapshots: there is always a whole one, and it runs no code."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.runs import Killed
from training import snapshot
from training.errors import TrainingError

pytestmark = pytest.mark.usefixtures("no_curves")


def saved(folder: Path) -> float:
    return float(snapshot.load(folder)["number"])


def test_a_kill_before_the_rename_leaves_the_old_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot.save(tmp_path, {"number": 1})

    def dying(self: Path, target: Path) -> Path:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dying)
        with pytest.raises(Killed):
            snapshot.save(tmp_path, {"number": 2})
    assert saved(tmp_path) == 1
    snapshot.save(tmp_path, {"number": 3})
    assert saved(tmp_path) == 3
    assert [path.name for path in tmp_path.rglob("*.*")] == ["state.pt"]


def test_snapshot_is_fsynced_before_and_after_its_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def syncing(number: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        fsync(number)

    def renaming(self: Path, target: Path) -> Path:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(Path, "replace", renaming)
    snapshot.save(tmp_path, {"number": 1})
    assert done == ["file", "rename", "directory"]


def not_a_snapshot() -> bytes:
    torch.save([1, 2], file := io.BytesIO())
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is damaged and cannot be read"),
        (b"\0" * 5000, "is damaged and cannot be read"),
        (b"PK\3\4 and text", "is damaged and cannot be read"),
        (None, "is damaged and cannot be read"),  # cut
        (not_a_snapshot(), "is no snapshot of a run"),
    ],
)
def test_a_damaged_snapshot_is_one_sentence_with_a_way_on(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """`--resume` cannot read it, and a run without `--resume` refuses its folder."""
    snapshot.save(tmp_path, {"number": 1})
    path = tmp_path / "resume" / "state.pt"
    path.write_bytes(path.read_bytes()[:100] if content is None else content)
    with pytest.raises(TrainingError) as refused:
        snapshot.load(tmp_path)
    assert str(refused.value) == f"{path} {problem}: restore it from a copy, or begin anew with another --out."


def test_a_snapshot_cannot_run_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    (tmp_path / "resume").mkdir()
    torch.save({"evil": Evil()}, tmp_path / "resume" / "state.pt")
    with pytest.raises(TrainingError, match="is damaged and cannot be read"):
        snapshot.load(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_folder_without_a_snapshot_is_named(tmp_path: Path) -> None:
    assert not snapshot.exists(tmp_path)
    with pytest.raises(TrainingError, match="has no run to resume"):
        snapshot.load(tmp_path)
