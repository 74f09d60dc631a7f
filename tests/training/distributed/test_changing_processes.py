"""A translator: killed processes, and other process counts at a resume."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.training import group_runs
from tests.training.distributed.test_process_group import assert_close, assert_one_mind
from tests.training.distributed.test_torchrun import processes, sentences, weights
from tests.training.group_runs import plain
from tests.training.groups import together
from tests.training.runs import assert_equal, timeless
from tests.training.small import pairs, translator
from training import snapshot
from training.config.run_config import LoopConfig, TranslatorConfig

pytestmark = pytest.mark.slow


def limited(epochs: int, *, dropout: bool) -> TranslatorConfig:
    loop = LoopConfig(max_epochs=epochs, ema_decay=0.9, gradient_accumulation=2, sample_translations=0)
    return translator(loop=loop, tokens_per_batch=20) if dropout else plain(loop=loop, tokens_per_batch=20)


def test_run_of_killed_processes_resumes_bit_for_bit(tmp_path: Path) -> None:
    for name, seed in (("pairs", 0), ("others", 1)):
        given = pairs(41, seed=seed)
        lines = [f"{s}\t{t}\n" for s, t in zip(given.sources, given.targets, strict=True)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    command = ["translator", "--source", "aa", "--target", "bb", "--train", "pairs.tsv", "--valid", "others.tsv"]
    command += ["--device", "cpu"]
    assert processes(tmp_path, *command, "--out", "whole").returncode == 0
    for rank, at in (("0", "7"), ("1", "12")):
        killed = processes(tmp_path, *command, "--out", rank, MORTAL_RANK=rank, MORTAL_AT=at)
        assert killed.returncode == 1
        [sentence] = sentences(killed)
        assert f"rank {rank} (on " in sentence
        resumed = processes(tmp_path, *command, "--out", rank, "--resume")
        assert resumed.returncode == 0, resumed.stderr
        assert "bit for bit" not in resumed.stderr
        assert weights(tmp_path / rank) == weights(tmp_path / "whole")
        assert timeless(tmp_path / rank) == timeless(tmp_path / "whole")
        states = [snapshot.load(tmp_path / name) for name in (rank, "whole")]
        for state in states:
            del state["launches"]
        assert_equal(*states)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_run_goes_on_with_fewer_or_more_processes(tmp_path: Path, before: int, after: int) -> None:
    """Without dropout, what differs is rounding."""
    [one] = together(1, group_runs.translate, tmp_path / "one", limited(4, dropout=False))
    together(before, group_runs.translate, tmp_path / "parts", limited(2, dropout=False))
    parts = together(after, group_runs.translate, tmp_path / "parts", limited(4, dropout=False), True)
    assert_one_mind(parts)
    assert_close(parts[0], one)
    rows = [timeless(tmp_path / name) for name in ("one", "parts")]
    for a, b in zip(*rows, strict=True):
        assert a == pytest.approx(b, abs=1e-4)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_saved_dropout_streams_go_on_with_other_process_counts(tmp_path: Path, before: int, after: int) -> None:
    together(before, group_runs.translate, tmp_path, limited(2, dropout=True))
    parts = together(after, group_runs.translate, tmp_path, limited(4, dropout=True), True)
    assert_one_mind(parts)
    streams = [state["cpu"] for state in snapshot.load(tmp_path)["random"]]
    assert len(streams) == after
    assert not any(torch.equal(streams[0], other) for other in streams[1:])
    losses = [row["valid_loss"] for row in timeless(tmp_path) if "valid_loss" in row]
    assert len(losses) == 4
    assert losses == sorted(losses, reverse=True)
