"""How every benchmark begins and ends: its options; rows and goals to read and, with --json, one object as the last
line."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from training.report.card_writer import source_revision

Rows = list[dict[str, Any]]


def argument_parser(benchmark: str, description: str | None) -> argparse.ArgumentParser:
    """With the options that all benchmarks have. One that has an --out of its own calls the file --results alone.
    From then on SIGTERM, which `timeout` and supervisors send, ends the program as Ctrl-C does, with its servers."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    top = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{benchmark}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",
    )
    top.set_defaults(benchmark=benchmark)
    top.add_argument("--json", action="store_true", help="one JSON object as the last line")
    text = "a file that gets the object of --json, as benchmarks/results keeps them"
    top.add_argument("--results", "--out", type=Path, metavar="FILE", help=text)
    return top


def environment() -> dict[str, Any]:
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
    cpu = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpu.read_text(encoding="utf-8")) if cpu.exists() else None
    return {
        "date": datetime.date.today().isoformat(),
        "commit": source_revision(),
        "machine": platform.machine(),
        "processor": model[1] if model else platform.processor(),
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
    arguments: argparse.Namespace, rows: Sequence[Mapping[str, Any]], goals: Sequence[Mapping[str, Any]]
) -> None:
    """arguments: those of `argument_parser`."""
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    for each in goals:
        sign = {"higher": "≥", "lower": "≤"}[each["better"]]
        verdict = {True: "met", False: "NOT MET", None: f"not measured: {each.get('why', '')}"}[each["met"]]
        print(f"{each['name']}: {each['value']} {each['unit']} (goal {sign} {each['goal']}): {verdict}")
    result = {"benchmark": arguments.benchmark, "environment": environment(), "rows": rows, "goals": goals}
    text = json.dumps(result, ensure_ascii=False)
    if arguments.results is not None:
        arguments.results.write_text(f"{text}\n", encoding="utf-8")
    if arguments.json:
        print(text)
