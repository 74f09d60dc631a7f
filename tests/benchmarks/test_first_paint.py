"""Statistics of measured page loads."""

from __future__ import annotations

from app.api.operations.web_pages import assets
from benchmarks.first_paint import goals, summary


def a_load(first_ms: float) -> dict[str, float]:
    times = {"first_paint_ms": first_ms, "first_contentful_paint_ms": first_ms + 10, "loaded_ms": first_ms + 20}
    times["largest_contentful_paint_ms"] = first_ms + 30
    return {**times, "requests": 60, "wire_bytes": 150_000, "unpacked_bytes": 140_000}


def test_the_goals_are_of_the_median_and_the_worst() -> None:
    row = summary([a_load(100.0), a_load(1500.0), a_load(300.0)])
    assert (row["cold_loads"], row["requests"], row["wire_bytes"]) == (3, 60, 150_000)
    assert (row["first_paint_ms_median"], row["loaded_ms_worst"]) == (300.0, 1520.0)
    assert row["page_bytes"] == sum(len(asset.body) for asset in assets().values())
    assert [(goal["value"], goal["met"]) for goal in goals(row)] == [(310.0, True), (1510.0, False)]
