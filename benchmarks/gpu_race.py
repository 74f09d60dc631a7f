"""The race of `benchmarks.gpu`: our decoding on a CUDA device against CTranslate2 in float16 where it runs, else
against plain PyTorch loops, and against the time that the moved bytes need.

The base shape with random weights, 20 source and 32 forced target tokens, encoding included in tokens/s. The loops
(`benchmarks.peers.eager`) are eager, one CUDA graph a step, and compiled; the fastest that ran counts. What a step and
the host's share of it are is defined in `benchmarks.steps`, the limit in `benchmarks.limit`. Every part runs in a
process of its own with a budget of seconds; what fails or runs out of time is reported in a row, and the rest goes on.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.limit import Copying, bytes_per_step
from benchmarks.ours import Parlance
from benchmarks.peers import ctranslate2
from benchmarks.peers.eager import Loop
from benchmarks.processes import ContenderError, Crew, Processes, Setting, Work
from benchmarks.race import say
from benchmarks.report import goal
from benchmarks.shapes import SHAPES, random_sources
from benchmarks.steps import SleepingParlance, Steps, StepTime

SOURCE_LENGTH, TARGET_LENGTH = 20, 32
# The ends of the range first: where time runs out, the middle is missing.
BATCHES = (1, 512, 32, 128, 8)
BUDGETS_S = {
    "ours": 100.0,
    "host": 60.0,
    "ctranslate2's environment": 90.0,
    "ctranslate2": 45.0,
    "eager": 30.0,  # the loops run only where CTranslate2 does not
    "graph": 35.0,
    "compiled": 85.0,
}
SPEED_GOAL, HOST_GOAL_US, LIMIT_GOAL = 2.0, 60.0, 2.0


class Plan(NamedTuple):
    """shape: the network that is raced. runs: timed translations of each cell."""

    shape: str
    device: str
    batches: Sequence[int]
    runs: int
    copy_bytes: int
    modes: Sequence[str]
    backend: str
    end: float = math.inf  # no part goes on after this moment of time.monotonic()

    def budget_s(self, part: str) -> float:
        return max(0.0, min(BUDGETS_S[part], self.end - time.monotonic()))

    @property
    def cells(self) -> dict[tuple[int, int], Work]:
        """(beam, batch) -> the work."""
        result = {}
        for batch in self.batches:
            sources = tuple(map(tuple, random_sources(SHAPES[self.shape], batch, SOURCE_LENGTH)))
            for beam in (1, 4):
                result[beam, batch] = Work(sources, (TARGET_LENGTH,) * batch, beam, batch, forced=True)
        return result


FULL = Plan("base", "cuda:0", BATCHES, 5, 1 << 30, ("eager", "graph", "compiled"), "inductor")
SMOKE = Plan("smoke", "cpu", (1, 4), 1, 1 << 24, ("eager", "compiled"), "eager")
Cells = dict[tuple[int, int], dict[str, Any]]


def budgeted(
    part: str,
    setting: Setting,
    cells: Mapping[Any, Work],
    measure: Callable[[Crew, Work, float], Any],
    budget_s: float,
) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
    """The results of `measure` for each cell within the part's time budget, and a row for each cell that failed.
    `measure` gets the seconds that are left. A failure ends its process, and the next cell gets a new one."""
    deadline = time.monotonic() + budget_s
    result, failed, crew = {}, [], None
    try:
        for cell, work in cells.items():
            left = deadline - time.monotonic()
            say(f"{part}: beam, batch {cell}, {left:.0f} s left")
            try:
                if left <= 0:
                    raise ContenderError(f"the part's {budget_s:.0f} s were over")
                crew = crew or Crew(setting, left)
                result[cell] = measure(crew, work, deadline - time.monotonic())
            except ContenderError as error:
                failed.append({"part": part, "beam, batch": list(cell), "failed": str(error)})
                if crew is not None:
                    crew.close()
                crew = None
    finally:
        if crew is not None:
            crew.close()
    return result, failed


def rate(runs: int) -> Callable[[Crew, Work, float], float]:
    """Tokens/s: the median of some translations after two warm-ups."""

    def measure(crew: Crew, work: Work, left: float) -> float:
        deadline, seconds = time.monotonic() + left, []
        for _ in range(2 + runs):
            took, tokens = crew.translate(work, max(0.0, deadline - time.monotonic()))
            if sum(map(len, tokens)) != sum(work.limits):
                raise ContenderError("it did not write what was forced")
            seconds.append(took)
        return sum(work.limits) / statistics.median(seconds[2:])

    return measure


def steps(crew: Crew, work: Work, left: float) -> Steps:
    result: Steps = crew.ask(StepTime(work), left)
    return result


def slots(plan: Plan) -> int:
    return max(work.beam * work.concurrent for work in plan.cells.values())


def measure_ours(plan: Plan, folder: str) -> tuple[Cells, list[dict[str, Any]]]:
    """tokens/s, step time, host time and the limit of each cell, as far as they could be had."""
    precision = "bf16" if plan.device.startswith("cuda") else "fp32"
    setting = Parlance(folder, 1, 0, precision, slots(plan), plan.device)
    cells: Cells = {cell: {"beam": cell[0], "batch": cell[1], "ours": precision} for cell in plan.cells}
    whole = rate(plan.runs)

    def both(crew: Crew, work: Work, left: float) -> tuple[float, Steps]:
        started = time.monotonic()
        result = whole(crew, work, left)
        return result, steps(crew, work, max(0.0, left - (time.monotonic() - started)))

    measured, failed = budgeted("ours", setting, plan.cells, both, plan.budget_s("ours"))
    bandwidth, copied = copy_bandwidth(plan.device, plan.copy_bytes)
    for cell, (tokens_per_second, step) in measured.items():
        cells[cell] |= {"tokens_per_second": round(tokens_per_second), "step_us": round(step.seconds * 1e6, 1)}
        if bandwidth:
            limit = limit_s(plan, cell, precision, bandwidth)
            cells[cell] |= {"limit_us": round(limit * 1e6, 1), "step_over_limit": round(step.seconds / limit, 2)}
    failed.append({"part": "copy bandwidth", **copied})
    if plan.device.startswith("cuda"):  # on a CPU all of a step is the host's
        sleeping = SleepingParlance(folder, 1, 0, precision, slots(plan), plan.device)
        hosts, more = budgeted("host", sleeping, plan.cells, steps, plan.budget_s("host"))
        failed += more
        for cell, step in hosts.items():
            cells[cell]["host_us"] = round(step.host_seconds * 1e6, 1)
    return cells, failed


def copy_bandwidth(device: str, size: int) -> tuple[float | None, dict[str, Any]]:
    """bytes/s, and what to report."""
    try:
        with Processes(Copying(device), 20.0) as process:
            result = float(process.ask(size, 10.0))
        return result, {"gb_per_second": round(result / 1e9, 1)}
    except ContenderError as error:
        return None, {"failed": str(error)}


def limit_s(plan: Plan, cell: tuple[int, int], precision: str, bandwidth: float) -> float:
    element = 4 if precision == "fp32" else 2
    moved = bytes_per_step(
        SHAPES[plan.shape].config(),
        beam=cell[0],
        batch=cell[1],
        source_length=SOURCE_LENGTH,
        target_length=TARGET_LENGTH,
        element=element,
    )
    return moved / bandwidth


def measure_peers(plan: Plan, folder: Path, cells: Cells) -> list[dict[str, Any]]:
    """Adds each peer's tokens/s to the cells; what failed is returned. On a GPU the plain loops run only where
    CTranslate2 does not."""
    device = plan.device.partition(":")[0]
    try:
        python = sys.executable
        if device == "cuda":
            python = str(ctranslate2.cuda_environment(plan.budget_s("ctranslate2's environment")))
        elif find_spec("ctranslate2") is None:
            raise ValueError("ctranslate2 is not installed")
        converted = ctranslate2.convert(folder, folder.with_name("ctranslate2"))
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        failed = [{"part": "ctranslate2", "failed": str(error)}]
    else:
        kind = "float16" if device == "cuda" else "float32"
        index = int(plan.device.partition(":")[2] or 0)
        peer = ctranslate2.CTranslate2(str(converted), kind, 1, 1, device, python, index)
        failed = add_rates("ctranslate2", peer, plan, cells)
    if device == "cuda" and any("ctranslate2_tokens_per_second" in cell for cell in cells.values()):
        return failed
    for mode in plan.modes:
        loop = Loop(str(folder), mode, plan.device, "bf16" if device == "cuda" else "fp32", plan.backend)
        failed += add_rates(mode, loop, plan, cells)
    return failed


def add_rates(name: str, setting: Setting, plan: Plan, cells: Cells) -> list[dict[str, Any]]:
    rates, failed = budgeted(name, setting, plan.cells, rate(plan.runs), plan.budget_s(name))
    for cell, result in rates.items():
        cells[cell][f"{name}_tokens_per_second"] = round(result)
    return failed


def compare(row: dict[str, Any], modes: Sequence[str]) -> None:
    """The ratio to CTranslate2, or where it did not run to the fastest loop."""
    rivals = {name: row.get(f"{name}_tokens_per_second") for name in ("ctranslate2", *modes)}
    there = {name: value for name, value in rivals.items() if value}
    if there and "tokens_per_second" in row:
        against = "ctranslate2" if "ctranslate2" in there else max(there, key=lambda name: there[name])
        row |= {"against": against, "ratio": round(row["tokens_per_second"] / there[against], 2)}


def goals(cells: Cells, why: str = "") -> list[dict[str, Any]]:
    """why: nothing could be measured. A part that failed has its reason in a row."""
    reason = why or "its part failed or ran out of time; see the rows"
    promises = []
    for beam, batch in sorted((beam, batch) for beam in (1, 4) for batch in BATCHES):
        row = cells.get((beam, batch), {})
        value, against = row.get("ratio"), row.get("against", "ctranslate2")
        rival = "CTranslate2" if against == "ctranslate2" else f"the {against} loop"
        name = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}: tokens/s"
        promises.append(goal(name, value, SPEED_GOAL, f"× {rival}", "higher", "" if value else reason))
    for beam, name in ((1, "greedy"), (4, "beam 4")):
        times = [row["host_us"] for (width, _), row in cells.items() if width == beam and "host_us" in row]
        worst = max(times) if len(times) == len(BATCHES) else None
        label = f"{name}: host time a step, worst batch"
        promises.append(goal(label, worst, HOST_GOAL_US, "µs", "lower", "" if worst else reason))
    value = cells.get((1, 512), {}).get("step_over_limit")
    name = "greedy, batch 512: step time"
    promises.append(goal(name, value, LIMIT_GOAL, "× bytes-moved limit", "lower", "" if value else reason))
    return promises
