"""The race of `benchmarks.gpu`: our decoding on a CUDA device against CTranslate2 in float16, and against the
time that the moved bytes need.

The base shape with random weights, 20 source and 32 forced target tokens, encoding included in tokens/s.
`benchmarks.steps` defines what a step is, and the limit. Every part runs in a process of its own with a budget of
seconds; what fails or runs out of time is reported in a row, and the rest goes on.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.ours import Parlance
from benchmarks.peers import ctranslate2
from benchmarks.processes import ContenderError, Crew, Processes, Setting, Work
from benchmarks.race import say
from benchmarks.report import goal
from benchmarks.shapes import SHAPES, random_sources
from benchmarks.steps import Copying, StepTime, bytes_per_step

SOURCE_LENGTH, TARGET_LENGTH = 20, 32
# The ends of the range first: where time runs out, the middle is missing.
BATCHES = (1, 512, 32, 128, 8)
BUDGETS_S = {"ours": 100.0, "ctranslate2's environment": 90.0, "ctranslate2": 45.0}
SPEED_GOAL, LIMIT_GOAL = 2.0, 2.0


def left_s(deadline: float) -> float:
    """deadline: a moment of time.monotonic()."""
    return max(0.0, deadline - time.monotonic())


class Plan(NamedTuple):
    """shape: the network that is raced. runs: timed translations of each cell."""

    shape: str
    device: str
    batches: Sequence[int]
    runs: int
    copy_bytes: int
    end: float = math.inf  # no part goes on after this moment of time.monotonic()

    def budget_s(self, part: str) -> float:
        return min(BUDGETS_S[part], left_s(self.end))

    @property
    def cells(self) -> dict[tuple[int, int], Work]:
        """(beam, batch) -> the work."""
        result = {}
        for batch in self.batches:
            sources = tuple(map(tuple, random_sources(SHAPES[self.shape], batch, SOURCE_LENGTH)))
            for beam in (1, 4):
                result[beam, batch] = Work(sources, (TARGET_LENGTH,) * batch, beam, batch, forced=True)
        return result


FULL = Plan("base", "cuda:0", BATCHES, 5, 1 << 30)
SMOKE = Plan("smoke", "cpu", (1, 4), 1, 1 << 24)
Cells = dict[tuple[int, int], dict[str, Any]]


def budgeted(
    part: str,
    setting: Setting,
    cells: Mapping[Any, Work],
    measure: Callable[[Crew, Work, float], Any],
    budget_s: float,
) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
    """The results of `measure` for each cell within the part's time budget, and a row for each cell that failed.
    `measure` gets the deadline. A failure ends its process, and the next cell gets a new one."""
    deadline = time.monotonic() + budget_s
    result, failed, crew = {}, [], None
    try:
        for cell, work in cells.items():
            say(f"{part}: beam, batch {cell}, {left_s(deadline):.0f} s left")
            try:
                if not left_s(deadline):
                    raise ContenderError(f"the part's {budget_s:.0f} s were over")
                crew = crew or Crew(setting, left_s(deadline))
                result[cell] = measure(crew, work, deadline)
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

    def measure(crew: Crew, work: Work, deadline: float) -> float:
        seconds = []
        for _ in range(2 + runs):
            took, tokens = crew.translate(work, left_s(deadline))
            if sum(map(len, tokens)) != sum(work.limits):
                raise ContenderError("it did not write what was forced")
            seconds.append(took)
        return sum(work.limits) / statistics.median(seconds[2:])

    return measure


def measure_ours(plan: Plan, folder: str) -> tuple[Cells, list[dict[str, Any]]]:
    """tokens/s, step time and the limit of each cell, as far as they could be had."""
    precision, element = ("bf16", 2) if plan.device.startswith("cuda") else ("fp32", 4)
    slots = max(work.beam * work.concurrent for work in plan.cells.values())
    setting, whole = Parlance(folder, 1, 0, precision, slots, plan.device), rate(plan.runs)
    cells: Cells = {cell: {"beam": cell[0], "batch": cell[1], "ours": precision} for cell in plan.cells}

    def both(crew: Crew, work: Work, deadline: float) -> tuple[float, float]:
        return whole(crew, work, deadline), float(crew.ask(StepTime(work), left_s(deadline)))

    measured, failed = budgeted("ours", setting, plan.cells, both, plan.budget_s("ours"))
    for cell, (tokens_per_second, step_s) in measured.items():
        cells[cell] |= {"tokens_per_second": round(tokens_per_second), "step_us": round(step_s * 1e6, 1)}
    try:
        with Processes(Copying(plan.device), 20.0) as process:
            bandwidth = float(process.ask(plan.copy_bytes, 10.0))
    except ContenderError as error:
        return cells, [*failed, {"part": "copy bandwidth", "failed": str(error)}]
    for cell, (_, step_s) in measured.items():
        limit_s = bytes_per_step(SHAPES[plan.shape].config(), plan.cells[cell], element) / bandwidth
        cells[cell] |= {"limit_us": round(limit_s * 1e6, 1), "step_over_limit": round(step_s / limit_s, 2)}
    return cells, [*failed, {"part": "copy bandwidth", "gb_per_second": round(bandwidth / 1e9, 1)}]


def measure_peer(plan: Plan, folder: Path, cells: Cells) -> list[dict[str, Any]]:
    """Adds CTranslate2's tokens/s and the ratio to them; what failed is returned."""
    device, _, index = plan.device.partition(":")
    try:
        python = sys.executable
        if device == "cuda":
            python = str(ctranslate2.cuda_environment(plan.budget_s("ctranslate2's environment")))
        converted = ctranslate2.convert(folder, folder.with_name("ctranslate2"))
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        return [{"part": "ctranslate2", "failed": str(error)}]
    kind = "float16" if device == "cuda" else "float32"
    peer = ctranslate2.CTranslate2(str(converted), kind, 1, 1, device, python, int(index or 0))
    rates, failed = budgeted("ctranslate2", peer, plan.cells, rate(plan.runs), plan.budget_s("ctranslate2"))
    for cell, theirs in rates.items():
        cells[cell]["ctranslate2_tokens_per_second"] = round(theirs)
        if ours := cells[cell].get("tokens_per_second"):
            cells[cell]["ratio"] = round(ours / theirs, 2)
    return failed


def goals(cells: Cells, why: str = "") -> list[dict[str, Any]]:
    """why: nothing could be measured. A part that failed has its reason in a row."""
    reason = why or "its part failed or ran out of time; see the rows"
    promises = []
    for beam, batch in sorted((beam, batch) for beam in (1, 4) for batch in BATCHES):
        row = cells.get((beam, batch), {})
        value = row.get("ratio")
        name = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}: tokens/s"
        promises.append(goal(name, value, SPEED_GOAL, "× CTranslate2", "higher", "" if value else reason))
    value = cells.get((1, 512), {}).get("step_over_limit")
    name = "greedy, batch 512: step time"
    promises.append(goal(name, value, LIMIT_GOAL, "× bytes-moved limit", "lower", "" if value else reason))
    return promises
