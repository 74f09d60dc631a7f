"""The `demo` command: what its models say about themselves, and how it ends when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from models import model_card
from tests.readme import ROOT
from tests.training.loop.test_interrupts import signal_at_step
from tests.training.small import lyricist, text
from training import snapshot
from training.__main__ import main
from training.demo import demo_models
from training.starting_point import read_starting_point

DEMO = ["demo", "--out", "models", "--device", "cpu", "--only", "lyrics-zh"]
pytestmark = pytest.mark.usefixtures("no_curves", "heeded")


@pytest.fixture
def small_demo(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which the demo's lyricist is a tiny network and reads a short text."""
    monkeypatch.setattr(demo_models, "demo_lyricist", lyricist)
    monkeypatch.setattr(demo_models, "lyrics", lambda: text(300))
    return here


def test_licence_of_the_demo_is_stated_and_carried_over(small_demo: Path) -> None:
    assert main(DEMO) == 0
    folder = small_demo / "models" / "lyrics-zh"
    assert model_card.licence(folder) == "apache-2.0"
    assert read_starting_point(str(folder), "lyrics").licence == "apache-2.0"
    small = ["--batch-size", "2", "--bptt", "5", "--max-epochs", "1", "--device", "cpu"]
    assert main(["lyrics", "--from", str(folder), "--corpus", "song.txt", "--out", "m", *small]) == 0
    assert "- Its licence: `apache-2.0`" in (small_demo / "m" / "README.md").read_text()


def test_interrupted_demo_says_to_run_the_same_command_again(
    small_demo: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        signal_at_step(patch, 5, signal.SIGINT)
        assert main(DEMO) == 130
    *_, last = capfd.readouterr().err.splitlines()
    assert last.startswith("Stopped: 5 updates (0 finished epochs) are saved in models. Run the same command again")
    assert main(DEMO) == 0


@pytest.mark.slow
def test_interrupted_models_side_by_side_are_one_sentence(tmp_path: Path) -> None:
    """As `make serve` trains them: a process for each model, and one that waits for them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "training", "demo", "--out", "models", "--device", "cpu"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background requests ignore it
    )
    logs = [tmp_path / "models" / name / "metrics.jsonl" for name in demo_models.MODELS]
    while not all(log.exists() for log in logs):
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "Stopped. Run the same command again to go on."
    assert [errors.count(words) for words in ("Stopping:", "Stopped", "Go on with", "Traceback")] == [1, 1, 0, 0]
    assert all(snapshot.exists(log.parent) for log in logs)
