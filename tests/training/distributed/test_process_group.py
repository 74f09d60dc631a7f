"""Several processes on one run do what one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training import group_runs
from tests.training.group_runs import plain
from tests.training.groups import together
from tests.training.runs import timeless
from training import snapshot
from training.config.run_config import LoopConfig
from training.errors import TrainingError


def assert_close(a: dict[str, Tensor], b: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def assert_one_mind(weights: list[dict[str, Tensor]]) -> None:
    """No process has drifted from the others by a single bit."""
    for others in weights[1:]:
        assert all(torch.equal(weights[0][name], others[name]) for name in weights[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "tokens_per_batch", "accumulate"),
    [(2, 40, 1), (2, 20, 2), (3, 14, 3)],
)
def test_several_processes_take_the_updates_of_one(
    tmp_path: Path, count: int, tokens_per_batch: int, accumulate: int
) -> None:
    """Batches of an odd number of rows, so that ranks have unlike tokens, or of fewer rows than there are ranks."""
    limits = LoopConfig(max_epochs=8, ema_decay=0.9, gradient_accumulation=accumulate, sample_translations=0)
    config = plain(tokens_per_batch=tokens_per_batch, loop=limits)
    [one] = together(1, group_runs.translate, tmp_path / "one", config)
    several = together(count, group_runs.translate, tmp_path / "several", config)
    assert_one_mind(several)
    assert_close(several[0], one)
    rows = [timeless(tmp_path / name) for name in ("one", "several")]
    assert rows[0][-1]["update"] == rows[1][-1]["update"] >= 50
    for a, b in zip(*rows, strict=True):
        assert a == pytest.approx(b, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["consecutive", "random"])
def test_lanes_of_a_text_are_shared(tmp_path: Path, sampling: str) -> None:
    """Three strands for two processes: the carried states go with their rows."""
    changes = {
        "network": {"embedding": 8, "hidden": 8, "layers": 2, "dropout": 0.0},
        "batch_size": 3,
        "sampling": sampling,
        "loop": LoopConfig(max_epochs=4),
    }
    [one] = together(1, group_runs.sing, tmp_path / "one", changes)
    two = together(2, group_runs.sing, tmp_path / "two", changes)
    assert_one_mind(two)
    assert_close(two[0], one)
    carried = [snapshot.load(tmp_path / name)["carried"] for name in ("one", "two")]
    assert carried[0]["hidden"].shape == (2, 3, 8)
    assert_close(carried[0], carried[1])


@pytest.mark.slow
def test_resume_on_as_many_processes_is_bit_for_bit(tmp_path: Path) -> None:
    """With dropout: every rank has a stream of its own, and has it again."""
    changes = {"network": {"embedding": 8, "hidden": 8, "layers": 2, "dropout": 0.5}}
    whole = together(2, group_runs.sing, tmp_path / "whole", {**changes, "loop": LoopConfig(max_epochs=4)})
    together(2, group_runs.sing, tmp_path / "parts", {**changes, "loop": LoopConfig(max_epochs=2)})
    streams = snapshot.load(tmp_path / "parts")["random"]
    assert not torch.equal(streams[0]["cpu"], streams[1]["cpu"])
    parts = together(2, group_runs.sing, tmp_path / "parts", {**changes, "loop": LoopConfig(max_epochs=4)}, True)
    assert_one_mind([*whole, *parts])


@pytest.mark.slow
def test_resume_on_another_number_of_processes_sees_the_same_data(tmp_path: Path) -> None:
    def limited(epochs: int) -> dict[str, Any]:
        network = {"embedding": 8, "hidden": 8, "layers": 2, "dropout": 0.0}
        return {"network": network, "batch_size": 3, "loop": LoopConfig(max_epochs=epochs)}

    [one] = together(1, group_runs.sing, tmp_path / "one", limited(6))
    together(2, group_runs.sing, tmp_path / "parts", limited(2))
    together(3, group_runs.sing, tmp_path / "parts", limited(4), True)
    [parts] = together(1, group_runs.sing, tmp_path / "parts", limited(6), True)
    assert_close(parts, one)


@pytest.mark.slow  # two processes that import torch
def test_gradients_of_unequal_shards_weigh_by_their_tokens() -> None:
    """Also through two passes, a table used twice and parameters that are not used at all, and added up over several
    batches of an update; the last batch has a row for rank 0 only."""
    rows = torch.tensor([[1, 2, 3], [4, 0, 0], [5, 6, 0], [6, 0, 0], [2, 2, 2]])
    updates = [[rows, rows[:3], rows[1:]], [rows[2:]], [rows[:2], rows[:1]]]
    [one] = together(1, group_runs.gradients, updates)
    two = together(2, group_runs.gradients, updates)
    for update in range(3):
        for name, expected in one[update].items():
            for rank in (0, 1):
                result = two[rank][update][name]
                if expected is None:
                    assert result is None, name
                else:
                    assert expected.abs().max() > 1e-3
                    torch.testing.assert_close(result * 2, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_time_limit_follows_the_clock_of_rank_0() -> None:
    """Rank 1's is far ahead, and faster."""
    result = together(2, group_runs.count_up, 50, 500.0, 0.2, -1)
    assert result[0] == result[1]
    assert 3 <= result[0][0] <= 12


def test_nan_loss_on_one_process_ends_all() -> None:
    errors = together(2, group_runs.count_up, 9, 0.0, None, 1)
    assert all(isinstance(error, TrainingError) for error in errors)
    assert str(errors[0]) == str(errors[1])
    assert "became nan at update 3" in str(errors[0])


def test_processes_with_different_corpora_are_refused() -> None:
    errors = together(3, group_runs.disagree)
    assert all(isinstance(error, TrainingError) for error in errors)
    assert "must be the same on every machine" in str(errors[0])


def test_every_process_draws_its_own_dropout() -> None:
    torch.manual_seed(1)
    alone = torch.rand(4)
    first, second, third = together(3, group_runs.draw)
    assert torch.equal(first, alone)
    assert len({tuple(stream.tolist()) for stream in (first, second, third)}) == 3
