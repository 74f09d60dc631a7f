"""Commands that are interrupted or fail, in this process and in one of their own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from tests.training.cli.commands import SING, TRANSLATE
from tests.training.runs import timeless
from tests.training.small import text
from training import snapshot
from training.__main__ import main, way_on
from training.loop import trainer as loops

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("no_curves", "heeded")


def signal_at_step(patch: pytest.MonkeyPatch, number: int, *signals: signal.Signals) -> None:
    """Sends the signals in the middle of update `number`, from 1."""
    step, calls = loops.Trainer._step, [0]

    def interrupted(self: loops.Trainer, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == number:
            for one in signals:
                signal.raise_signal(one)
        step(self, *arguments)

    patch.setattr(loops.Trainer, "_step", interrupted)


@pytest.mark.parametrize(
    ("arguments", "number", "code"),
    [
        pytest.param(TRANSLATE, signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(TRANSLATE, signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(SING, signal.SIGINT, 130, marks=pytest.mark.slow),
        (SING, signal.SIGTERM, 143),
    ],
)
def test_a_signal_finishes_the_update_and_saves(
    here: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], number: signal.Signals, code: int
) -> None:
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with pytest.MonkeyPatch.context() as patch:
        signal_at_step(patch, 5, number)
        assert main(arguments) == code
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("Stopping: the running update") == 1
    last = captured.err.splitlines()[-1]
    assert re.fullmatch(r"Stopped: 5 updates \(\d finished epochs?\) are saved in m. Go on with: (.*)", last), last
    assert last.endswith(f"python -m training {shlex.join(arguments)} --resume")
    assert snapshot.load(here / "m")["progress"]["update"] == 5
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert main([*arguments, "--resume"]) == 0
    assert main([*arguments, "--out", "whole"]) == 0
    weights = [(here / name / "model.safetensors").read_bytes() for name in ("m", "whole")]
    assert weights[0] == weights[1]
    assert timeless(here / "m") == timeless(here / "whole")


def test_a_second_signal_ends_the_run_at_once(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        signal_at_step(patch, 5, signal.SIGINT, signal.SIGINT)
        assert main(SING) == 130
    assert capfd.readouterr().err.splitlines()[-1] == "Stopped; nothing had been saved yet."
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
        signal_at_step(patch, 5, signal.SIGTERM, signal.SIGTERM)
        assert main(SING) == 143
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("Stopped. m holds the run up to its last snapshot. Go on with: python -m training lyrics")
    assert snapshot.load(here / "m")["progress"]["update"] == 4
    assert refused_out(capfd) == "m holds an unfinished run; go on with --resume, or choose another --out."


def refused_out(capfd: pytest.CaptureFixture[str]) -> str:
    assert main(SING) == 2
    return capfd.readouterr().err.splitlines()[-1].removeprefix("error: ")


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
    assert re.match(r"Stopped: [\d,]+ updates \(\d+ finished epochs?\) are saved in m", errors.splitlines()[-1])
    assert "Traceback" not in errors
    assert not checkpoints.is_checkpoint(here / "m")


def test_interrupt_during_the_imports_shows_no_traceback() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "training", "recipes"]  # a line as each module is imported
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    with process:
        assert process.stderr is not None
        imported = next(line for line in process.stderr if re.search(r"\btorch\.", line))
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == -signal.SIGINT, imported
    assert "Traceback" not in rest
    assert "KeyboardInterrupt" not in rest


def test_command_that_goes_on_is_one_that_exists() -> None:
    assert way_on(["lyrics", "--out", "m"]) == "Go on with: python -m training lyrics --out m --resume"
    assert way_on(["lyrics", "--resume"]) == "Go on with: python -m training lyrics --resume"
