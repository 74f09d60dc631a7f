"""Snapshots: there is always a whole one, and it runs no code."""

from __future__ import annotations

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


@pytest.mark.parametrize("dies_at", [1, 2])
def test_a_kill_between_the_renames_leaves_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    snapshot.save(tmp_path, {"number": 1})
    rename, calls = Path.rename, [0]

    def dying(self: Path, target: Path) -> Path:
        calls[0] += 1
        if calls[0] == dies_at:
            raise Killed
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with pytest.raises(Killed):
            snapshot.save(tmp_path, {"number": 2})
    assert snapshot.exists(tmp_path)
    assert saved(tmp_path) == 1
    snapshot.save(tmp_path, {"number": 3})
    assert saved(tmp_path) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["resume"]


def test_the_only_snapshot_is_not_removed_before_the_next_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot.save(tmp_path, {"number": 1})
    (tmp_path / "resume").rename(tmp_path / "resume.old")  # a kill between the renames

    def dying(self: Path, target: Path) -> Path:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dying)
        with pytest.raises(Killed):
            snapshot.save(tmp_path, {"number": 2})
    assert saved(tmp_path) == 1


def test_a_snapshot_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    snapshot.save(tmp_path, {"number": 1})
    path = tmp_path / "resume" / "state.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TrainingError, match=r"state\.pt cannot be read"):
        snapshot.load(tmp_path)


def test_a_snapshot_cannot_run_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    (tmp_path / "resume").mkdir()
    torch.save({"evil": Evil()}, tmp_path / "resume" / "state.pt")
    with pytest.raises(TrainingError, match="cannot be read"):
        snapshot.load(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    assert not snapshot.exists(tmp_path)
    with pytest.raises(TrainingError, match="has no run to resume"):
        snapshot.load(tmp_path)
