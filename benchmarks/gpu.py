"""All that only a GPU can show, in one command of under nine minutes (`make gpu-check`).

python -m benchmarks.gpu [--json] [--out FILE] [--device cuda:0] [--parts tests,race]
python -m benchmarks.gpu --device cpu --smoke          every part that a CPU can run, on a toy: for tests

report  what PyTorch says about the GPUs and the driver (models/backends/torch/cuda_report.py)
tests   pytest -m gpu: tokens, attention and training as on a CPU; load, unload and load again; two devices if there are
race    tokens/s against CTranslate2 in float16, step time against the bytes moved (benchmarks/gpu_race.py)

Every part has a budget of seconds, and none goes on after TOTAL_S. A part that fails or runs out of time is a row with
the reason, its goals have the value null, and the rest goes on. Without a GPU all goals are null, and the status is 0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import gpu_race
from benchmarks.processes import ROOT
from benchmarks.race import say
from benchmarks.report import Rows, argument_parser, finish, goal
from benchmarks.shapes import SHAPES, write_checkpoint
from models.backends.torch.cuda_report import cuda_report

TOTAL_S = 530.0
TESTS_S = 150.0
PARTS = ("tests", "race")
FAILURES = "tests on the GPU that failed"


def command(arguments: Sequence[str], timeout_s: float) -> tuple[str, str | None]:
    """The output of `python -m …`, and why it is not complete, if so."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        return output, f"the part's {timeout_s:.0f} s were over"
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return done.stdout, None if done.returncode == 0 else f"status {done.returncode}: {last}"


def tests(timeout_s: float) -> tuple[Rows, Rows]:
    """Rows and the goal. A failed test is a row with its name."""
    processes = str(min(4, os.cpu_count() or 1))  # they share the GPU: most of the time is compiling and importing
    output, why = command(["pytest", "-m", "gpu", "-rf", "-n", processes, "tests/gpu"], timeout_s)
    lines = output.strip().splitlines() or [""]
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", lines[-1])}
    rows: Rows = [{"part": "tests", **counts}]
    rows += [{"part": "tests", "failed": line.removeprefix("FAILED ")} for line in lines if line.startswith("FAILED ")]
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    if failed or counts.get("passed"):
        return rows, [goal(FAILURES, failed, 0, "tests", "lower")]
    why = why or "every test was skipped"
    return [*rows, {"part": "tests", "failed": why}], [goal(FAILURES, None, 0, "tests", "lower", why)]


def race(plan: gpu_race.Plan) -> tuple[Rows, Rows]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_checkpoint(Path(temporary) / plan.shape, SHAPES[plan.shape])
        cells, failed = gpu_race.measure_ours(plan, str(folder))
        failed += gpu_race.measure_peer(plan, folder, cells)
    is_toy = plan.shape != gpu_race.FULL.shape
    goals = gpu_race.goals({}, "this was not the base shape") if is_toy else gpu_race.goals(cells)
    return [*cells.values(), *failed], goals


def main() -> None:
    top = argument_parser("gpu", __doc__)
    top.add_argument("--device", default="cuda:0")
    top.add_argument("--smoke", action="store_true", help="a toy shape, for tests")
    top.add_argument("--parts", default=",".join(PARTS), help="with commas, in any order")
    options = top.parse_args()
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        top.error(f"--parts knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    end = time.monotonic() + TOTAL_S
    report = cuda_report()
    known = {name: value for name, value in asdict(report).items() if value is not None}
    rows, goals = [{"part": "report", **known}], list[dict[str, Any]]()
    if options.device.startswith("cuda") and report.problem is not None:
        why = f"no GPU: {report.problem}"
        finish(options, rows, [goal(FAILURES, None, 0, "tests", "lower", why), *gpu_race.goals({}, why)])
        return
    plan = (gpu_race.SMOKE if options.smoke else gpu_race.FULL)._replace(device=options.device, end=end)
    work = {"tests": lambda: tests(TESTS_S), "race": lambda: race(plan)}
    for part in (part for part in PARTS if part in parts):
        say(part)
        more, promised = work[part]()
        rows, goals = [*rows, *more], [*goals, *promised]
    finish(options, rows, goals)


if __name__ == "__main__":
    main()
