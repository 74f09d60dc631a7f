"""How every benchmark ends: rows and goals to read and, with --json, one object as the last line."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from training.report.environment import source_revision


def environment() -> dict[str, Any]:
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
    return {
        "date": datetime.date.today().isoformat(),
        "commit": source_revision(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "gpu": device,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def goal(
    name: str, value: float | None, aim: float, unit: str, better: Literal["higher", "lower"], why: str = ""
) -> dict[str, Any]:
    """One goal and its measured value; None could not be measured here, and `why` gives the reason."""
    met = None if value is None else (value >= aim if better == "higher" else value <= aim)
    row = {"name": name, "value": value, "goal": aim, "unit": unit, "better": better, "met": met}
    return {**row, "why": why} if why else row


def finish(
    benchmark: str,
    rows: Sequence[Mapping[str, Any]],
    goals: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
    out: Path | None = None,
) -> None:
    """out: a file that gets the object too, as `benchmarks/results/` keeps them."""
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    for each in goals:
        sign = {"higher": "≥", "lower": "≤"}[each["better"]]
        verdict = {True: "met", False: "NOT MET", None: f"not measured: {each.get('why', '')}"}[each["met"]]
        print(f"{each['name']}: {each['value']} {each['unit']} (goal {sign} {each['goal']}): {verdict}")
    result = {"benchmark": benchmark, "environment": environment(), "rows": rows, "goals": goals}
    if out is not None:
        out.write_text(json.dumps(result, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(result, ensure_ascii=False))
