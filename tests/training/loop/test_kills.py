"""kill -9 at any moment, and the run goes on to the same bits."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.killing import KINDS
from tests.training.runs import assert_same_run

ROOT = Path(__file__).parents[3]


def killed(kind: str, runs: dict[Path, list[int]]) -> list[list[int]]:
    """Runs into these folders, each killed at these moments in turn and then continued to its end. Returns how many
    moments each last process passed, and how many were killed."""
    given = [f"{out}:{','.join(map(str, points))}" for out, points in runs.items()]
    command = [sys.executable, "-m", "tests.training.killing", kind, *given]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return [[int(number) for number in line.split()] for line in result.stdout.splitlines()]


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    (moments, none), (rest, kills) = killed("translator", {whole: [], parts: [9, 34, 37, 71]})
    assert (moments > 100, none, kills) == (True, 0, 4)
    assert rest < moments
    assert_same_run(whole, parts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_run_killed_at_any_moment_resumes_bit_for_bit(tmp_path: Path, kind: str) -> None:
    generator = random.Random(kind)
    whole, *others = (tmp_path / str(number) for number in range(40))
    points = {out: [generator.randint(1, 70) for _ in range(generator.randint(1, 4))] for out in others}
    seen = killed(kind, {whole: [], **points})
    assert len(seen) == 40
    assert sum(kills for _, kills in seen) > 60
    for out in others:
        assert_same_run(whole, out)
