"""What the log says of the very update at which a run was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.counting import Counting, looping
from tests.training.runs import Killed, kill_at, timeless
from training.loop import trainer as loops


def test_resume_with_nothing_left_to_train_logs_its_update(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 8)
        with pytest.raises(Killed):
            looping(Counting(batches=12), tmp_path, max_epochs=2).run()
    for _ in range(2):  # the second time it reads what the first has written
        looping(Counting([1.0], batches=12), tmp_path, max_epochs=2, max_minutes=1e-9).run(resume=True)
        measured = {"update": 8, "epoch": 1, "valid_loss": 1.0, "valid_perplexity": pytest.approx(2.71828, rel=1e-5)}
        assert timeless(tmp_path) == [{"update": 8, "epoch": 1, "rate": 1.0, "loss": -3.5}, measured]


def test_validation_after_the_last_snapshot_is_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots at updates 1 and 2, a validation at 2 that is killed before its snapshot, and a resume."""
    monkeypatch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
    loop = looping(Counting([5.0, 4.0], batches=2), tmp_path, max_epochs=1)
    original = loop._save

    def save(**options: Any) -> None:
        if loop.progress.validated == 2:
            raise Killed
        original(**options)

    loop._save = save  # type: ignore[method-assign]
    validate = loop._validate_if_due

    def save_first(epoch: int | None = None) -> None:
        save(force=True)
        validate(epoch)

    loop._validate_if_due = save_first  # type: ignore[method-assign]
    with pytest.raises(Killed):
        loop.run()
    rows = timeless(tmp_path)
    assert [row["update"] for row in rows] == [2, 2]
    looping(Counting([5.0], batches=2), tmp_path, max_epochs=1).run(resume=True)
    assert timeless(tmp_path) == rows
