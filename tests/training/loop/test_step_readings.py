"""On a GPU the host does not wait for every update, and still detects a run that goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.counting import Counting, looping
from tests.training.runs import timeless
from training import snapshot
from training.errors import TrainingError
from training.loop import trainer as loops
from training.loop.trainer import Trainer

READS = ("item", "tolist", "__bool__", "__float__", "__int__", "cpu", "numpy")


def counting_reads(patch: pytest.MonkeyPatch, loop: Trainer) -> list[int]:
    """The number of updates done at every read of a tensor by the host."""
    reads: list[int] = []
    for method in READS:
        original = getattr(Tensor, method)

        def counted(self: Tensor, *arguments: Any, original: Any = original) -> Any:
            reads.append(loop.progress.update)
            return original(self, *arguments)

        patch.setattr(Tensor, method, counted)
    return reads


def test_device_is_not_read_between_two_log_lines(tmp_path: Path) -> None:
    reads = {}
    for name in ("eager", "lazy"):
        (tmp_path / name).mkdir()
        loop = looping(Counting(batches=130), tmp_path / name, max_epochs=1)
        loop.reads_at_once = name == "eager"
        with pytest.MonkeyPatch.context() as patch:
            reads[name] = counting_reads(patch, loop)
            loop.run()
    assert sorted(set(reads["lazy"])) == [50, 100, 130]
    assert [reads["lazy"].count(update) for update in (50, 100)] == [1, 1], "losses and norms come in one copy"
    assert len(set(reads["eager"])) > 120
    assert timeless(tmp_path / "lazy") == timeless(tmp_path / "eager")
    assert [row["update"] for row in timeless(tmp_path / "lazy")] == [50, 100, 130]


def test_nan_loss_is_detected_before_the_next_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Diverging(Counting):
        def loss(self, batch: int) -> tuple[Tensor, int]:
            loss, tokens = super().loss(batch)
            return (loss * float("nan") if self.state.item() == 13 else loss), tokens

    task = Diverging(batches=100)
    loop = looping(task, tmp_path, max_epochs=1)
    loop.reads_at_once = False
    saves, save = [0], loop._save

    def sometimes(*, force: bool = False) -> None:
        saves[0] += 1
        save(force=force or saves[0] % 8 == 0)

    monkeypatch.setattr(loop, "_save", sometimes)
    with pytest.raises(TrainingError, match=r"^The loss became nan at update 13: lower the learning rate"):
        loop.run()
    assert torch.isnan(task.network.weight).all()
    assert loop.progress.update == 16
    assert snapshot.load(tmp_path)["network"]["weight"].item() == 8.0
    assert loops.LOG_EVERY_UPDATES > 16
