"""What serving is to reach, read off the rows of a run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.page import WAYS
from benchmarks.report import goal
from benchmarks.serving_race import BATCHING
from benchmarks.sweep import best_goodput

Rows = Sequence[Mapping[str, Any]]
NOT_RUN = "this part was not run"


def goals(rows: Rows) -> list[dict[str, Any]]:
    result = [promise for way in WAYS for promise in _page(rows, way)]
    return [*result, *_goodput(rows), *_costs(rows), *_lyricist(rows), _agreement(rows)]


def _page(rows: Rows, way: str) -> list[dict[str, Any]]:
    ours, theirs = (
        [row for row in rows if row.get("page") == way and row["server"] == name] for name in ("Parlance", BATCHING)
    )
    if not ours or not theirs:
        return [goal(f"page, {way}: time to the last one", None, 2, f"× faster than {BATCHING}", "higher", NOT_RUN)]
    ratio = statistics.median(b["last_s"] / a["last_s"] for a, b in zip(ours, theirs, strict=True))
    results = [goal(f"page, {way}: time to the last one", round(ratio, 2), 2, f"× faster than {BATCHING}", "higher")]
    later = [row["first_later_ms"] for row in ours if row["first_later_ms"] is not None]
    if later:
        value = round(statistics.median(later), 1)
        results.append(goal(f"page, {way}: the first one, later than alone", value, 50, "ms", "lower"))
    return results


def _goodput(rows: Rows) -> list[dict[str, Any]]:
    swept = [dict(row) for row in rows if "sweep" in row and "offered" in row]
    name, unit = "goodput at a p99 of 2 s", f"× {BATCHING}'s"
    if not swept:
        return [goal(name, None, 3, unit, "higher", NOT_RUN)]
    ours, theirs = best_goodput(swept, "Parlance"), best_goodput(swept, BATCHING)
    if ours is None or theirs is None:
        return [goal(name, None, 3, unit, "higher", "a server held none of the rates that were tried")]
    return [goal(name, round(ours / theirs, 2), 3, unit, "higher")]


def _costs(rows: Rows) -> list[dict[str, Any]]:
    one = next((row["difference_ms"] for row in rows if "overhead" in row), None)
    kept = next((row["kept"] for row in rows if "throughput" in row), None)
    return [
        goal("HTTP and IPC over engine time, median, one client", one, 1.0, "ms", "lower", _why(one)),
        goal("engine throughput kept over HTTP", kept, 0.9, "of the engine alone", "higher", _why(kept)),
    ]


def _lyricist(rows: Rows) -> list[dict[str, Any]]:
    row = next((row for row in rows if "lyricist" in row), None)
    value = row and row["ratio"]
    return [goal("lyricist, concurrent streams", value, 20, "× one nn.GRU loop", "higher", _why(value))]


def _agreement(rows: Rows) -> dict[str, Any]:
    row = next((row for row in rows if row.get("agreement") == "fp32"), None)
    value = row and row["differing"]
    name = f"answers under load that differ from the answer alone, fp32, of {row['requests'] if row else 2000}"
    return goal(name, value, 0, "answers", "lower", _why(value))


def _why(value: Any) -> str:
    return NOT_RUN if value is None else ""
