"""What of the GPU's benchmark a CPU can run, and the arithmetic of its limit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu, gpu_race
from benchmarks.ours import Parlance
from benchmarks.peers import ctranslate2
from benchmarks.processes import ContenderError, Crew, Work
from benchmarks.shapes import SHAPES, random_network, random_sources, write_checkpoint
from benchmarks.steps import Copying, StepTime, bytes_per_step, decoder_parameters
from tests.benchmarks.echo import Echo
from tests.readme import ROOT


def test_the_limit_counts_what_a_step_reads_of_the_weights() -> None:
    shape = SHAPES["smoke"]
    network = random_network(shape)
    decoder = sum(p.numel() for p in network.decoder.parameters())
    unread = 2 * sum(w.numel() // 3 for n, w in network.decoder.named_parameters() if "cross_attention.proj" in n)
    assert network.output_bias is not None
    output = network.target_embedding.weight.numel() + network.output_bias.numel()
    assert decoder_parameters(shape.config()) == decoder - unread + output


def test_the_limit_counts_the_caches_of_rows_and_the_source_of_sentences() -> None:
    config = SHAPES["smoke"].config()  # 2 layers of width 32: 128 numbers a position
    one, more, beam = (
        bytes_per_step(config, Work(((5,) * 20,) * batch, (32,) * batch, beam, batch, forced=True), 2)
        for batch, beam in ((1, 1), (3, 1), (1, 4))
    )
    assert one == 2 * (decoder_parameters(config) + 128 * (16.5 + 1 + 20))
    assert more - one == 2 * 128 * 2 * (16.5 + 1 + 20)
    assert beam - one == 2 * 128 * 3 * (16.5 + 1)


def test_a_step_is_timed_and_a_copy_too(tmp_path: Path) -> None:
    shape = SHAPES["smoke"]
    folder = write_checkpoint(tmp_path / "smoke", shape)
    work = Work(tuple(map(tuple, random_sources(shape, 3, 5))), (4,) * 3, 1, 3, forced=True)
    assert 0 < StepTime(work).measure(Parlance(str(folder), 1, 1, "fp32").open()) < 10
    assert Copying("cpu").answer(1 << 16) > 0


def test_a_part_that_fails_is_a_row_and_the_next_cell_gets_a_new_process() -> None:
    fine, bad = Work(((1,),), (1,), 1, 1), Work(((1,),), (1,), 13, 1)
    pids = {}

    def measure(crew: Crew, work: Work, deadline: float) -> int:
        pid = int(crew.ask("pid", gpu_race.left_s(deadline)))
        pids.setdefault(work.beam, []).append(pid)
        crew.translate(work, gpu_race.left_s(deadline))
        return pid

    results, failed = gpu_race.budgeted("ours", Echo(), {"a": fine, "b": bad, "c": fine}, measure, 30.0)
    assert list(results) == ["a", "c"]
    assert results["a"] == pids[13][0] != results["c"]
    assert [row["failed"] for row in failed] == ["ValueError: thirteen"]
    results, failed = gpu_race.budgeted("ours", Echo(), {"a": fine}, measure, 0.0)
    assert not results
    assert "0 s were over" in failed[0]["failed"]


def test_what_did_not_write_as_forced_has_no_rate() -> None:
    short = Work(((1, 2), (3,)), (2, 2), 1, 2, forced=True)
    with Crew(Echo()) as crew, pytest.raises(ContenderError, match="forced"):
        gpu_race.rate(1)(crew, short, time.monotonic() + 30)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_device_every_goal_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["gpu", "--json", "--out", str(out)])
        gpu.main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result == json.loads(out.read_text(encoding="utf-8"))
    assert result["benchmark"] == "gpu"
    assert {goal["value"] for goal in result["goals"]} == {None}
    (why,) = {goal["why"] for goal in result["goals"]}
    assert why == f"no GPU: {result['rows'][0]['problem']}"
    assert len(result["goals"]) == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "cells"),
    [
        (["gpu", "--device", "cpu", "--smoke", "--parts", "race"], 4),
        (["decoding", "--shapes", "smoke", "--batches", "1", "--beam-batches", "2", "--rounds", "1"], 2),
    ],
)
def test_command_runs_on_a_toy_model(command: list[str], cells: int) -> None:
    run = [sys.executable, "-m", f"benchmarks.{command[0]}", *command[1:], "--json"]
    done = subprocess.run(run, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    result = json.loads(done.stdout.splitlines()[-1])
    measured = [row for row in result["rows"] if row.get("tokens_per_second", 0) > 0]
    assert len(measured) == cells
    assert not [row for row in result["rows"] if "failed" in row and row.get("part") != "ctranslate2"]


def output_of(text: str, why: str | None = None) -> Any:
    return lambda arguments, timeout_s: (text, why)


def test_the_gpu_tests_are_counted_and_their_failures_named(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "FAILED tests/gpu/test_cuda.py::test_a - assert 2 <= 1\n1 failed, 17 passed, 1 skipped in 61.20s"
    monkeypatch.setattr(gpu, "command", output_of(lines, "status 1: 1 failed"))
    rows, (goal,) = gpu.tests(60)
    assert rows[0] == {"part": "tests", "failed": 1, "passed": 17, "skipped": 1}
    assert rows[1]["failed"] == "tests/gpu/test_cuda.py::test_a - assert 2 <= 1"
    assert (goal["value"], goal["met"]) == (1, False)
    monkeypatch.setattr(gpu, "command", output_of("18 passed in 61.20s"))
    assert gpu.tests(60)[1][0]["met"] is True


def test_tests_that_did_not_run_are_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, why, shown in (
        ("19 skipped in 0.20s", None, "every test was skipped"),
        (".....", "the part's 60 s were over", "the part's 60 s were over"),
        ("no tests ran in 0.01s", "status 5: no tests ran in 0.01s", "status 5: no tests ran in 0.01s"),
    ):
        monkeypatch.setattr(gpu, "command", output_of(text, why))
        (goal,) = gpu.tests(60)[1]
        assert (goal["value"], goal["why"]) == (None, shown)


def test_a_part_ends_with_its_budget() -> None:
    output, why = gpu.command(["benchmarks.processes", "0"], 0.0)
    assert (output, why) == ("", "the part's 0 s were over")
    assert gpu.TOTAL_S < 540
    assert gpu_race.FULL._replace(end=0.0).budget_s("ours") == 0


def test_an_environment_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program stands for the environment's Python, as `venv` would have made it."""
    folder = tmp_path / "environment"
    python = folder / "bin" / "python"

    def create(where: Path, **_: Any) -> None:
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found for ctranslate2' >&2\nexit 1\n")
        python.chmod(0o755)

    monkeypatch.setattr(ctranslate2.venv, "create", create)
    with pytest.raises(RuntimeError, match="cannot be installed: ERROR: No matching distribution"):
        ctranslate2.cuda_environment(30, folder)
    python.write_text("#!/bin/sh\nexit 0\n")
    monkeypatch.setattr(ctranslate2.venv, "create", lambda *_, **__: None)
    assert ctranslate2.cuda_environment(30, folder) == python
    python.unlink()
    assert ctranslate2.cuda_environment(0, folder) == python  # complete: nothing is run again


def test_a_cell_that_ctranslate2_ran_has_a_ratio_and_a_goal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_race.ctranslate2, "convert", lambda checkpoint, folder: folder)
    monkeypatch.setattr(gpu_race, "budgeted", lambda *given: ({(1, 1): 40.0}, [{"failed": "over"}]))
    cells: gpu_race.Cells = {cell: {"tokens_per_second": 100} for cell in gpu_race.SMOKE.cells}
    assert gpu_race.measure_peer(gpu_race.SMOKE, tmp_path, cells) == [{"failed": "over"}]
    assert (cells[1, 1]["ctranslate2_tokens_per_second"], cells[1, 1]["ratio"]) == (40, 2.5)
    goals = {goal["name"]: goal for goal in gpu_race.goals(cells)}
    assert goals["greedy, batch 1: tokens/s"]["met"] is True
    assert goals["greedy, batch 32: tokens/s"]["value"] is None
    assert "see the rows" in goals["greedy, batch 32: tokens/s"]["why"]
