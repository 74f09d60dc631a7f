"""Training on a CUDA device: every precision learns, torchrun's one process is a run like any other, and a run that
was cut off goes on (make test-gpu)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from tests.training.small import pairs, text, translator
from training.config.run_config import LoopConfig
from training.report.progress_report import read_rows
from training.training_run import TrainingRun
from training.translator_run import train_translator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("compiled", ["on", "off"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_every_precision_learns(tmp_path: Path, precision: str, compiled: str) -> None:
    """Held-out loss falls by 15 % in twelve passes (on a CPU by 23), with loss scales and compilers of all kinds."""
    loop = LoopConfig(max_epochs=12, precision=precision, compile=compiled)  # type: ignore[arg-type]
    train_translator(
        replace(translator(), loop=loop),
        pairs(200),
        pairs(20, seed=1),
        TrainingRun(out=tmp_path, device=torch.device("cuda"), quiet=True),
    )
    losses = [row["valid_loss"] for row in read_rows(tmp_path / "metrics.jsonl") if "valid_loss" in row]
    assert len(losses) == 12
    assert losses[-1] < 0.85 * losses[0]


def command(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    given = ["lyrics", "--corpus", str(folder / "song.txt"), "--out", str(folder / "m"), "--recipe", "small", *more]
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=1", "-m", "training"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", *launcher, *given],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_torchrun_with_nccl_trains_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "song.txt").write_text(text(4000), encoding="utf-8")
    first = command(tmp_path, "--max-epochs", "1")
    assert first.returncode == 0, first.stderr
    assert checkpoints.is_checkpoint(tmp_path / "m")
    second = command(tmp_path, "--max-epochs", "3", "--resume")
    assert second.returncode == 0, second.stderr
    scores = [json.loads(run.stdout.splitlines()[-1])["held-out end of the text"] for run in (first, second)]
    assert scores[1]["nats_per_character"] < scores[0]["nats_per_character"]
