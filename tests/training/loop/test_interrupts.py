"""Commands that are interrupted or fail, in this process and in one of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from tests.training.cli.commands import SING, TRANSLATE, refused
from tests.training.small import text
from training.__main__ import main
from training.loop import trainer as loops

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("no_curves")


def test_interrupt_prints_a_sentence_and_is_resumable(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
    step, calls = loops.Trainer._step, [0]

    def interrupted(self: loops.Trainer, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == 5:
            raise KeyboardInterrupt
        step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loops.Trainer, "_step", interrupted)
        assert main(SING) == 130
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1] == "Stopped. Go on with --resume where it had saved."
    assert captured.out == ""
    assert refused(capsys, *SING) == "m holds an unfinished run; go on with --resume, or choose another --out."
    assert main([*SING, "--resume"]) == 0
    assert main([*SING, "--out", "whole"]) == 0
    weights = [(here / name / "model.safetensors").read_bytes() for name in ("m", "whole")]
    assert weights[0] == weights[1]


def start(here: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "training", *arguments],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background requests ignore it
    )


@pytest.mark.slow
def test_failing_process_prints_one_sentence(here: Path) -> None:
    process = start(here, *TRANSLATE, "--train", "missing.tsv")
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert errors.startswith("error: missing.tsv does not exist: give SOURCE,TARGET")
    assert errors.count("\n") == 1


@pytest.mark.slow
def test_interrupted_process_can_be_resumed(here: Path) -> None:
    (here / "song.txt").write_text(text(4000))
    arguments = [*SING, "--recipe", "d2l-adam", "--threads", "1"]
    process = start(here, *arguments)
    log = here / "m" / "metrics.jsonl"
    while not log.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert out == ""
    assert errors.splitlines()[-1] == "Stopped. Go on with --resume where it had saved."
    assert "Traceback" not in errors
    assert not checkpoints.is_checkpoint(here / "m")
