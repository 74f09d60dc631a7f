"""What a serving run is judged by, from rows alone."""

from __future__ import annotations

from typing import Any

from benchmarks.serving import BATCHING, goals
from benchmarks.serving_parts import best_goodput, holds


def row(name: str, offered: float, p99_ms: float, *, achieved: float | None = None, refused: int = 0) -> dict[str, Any]:
    reached = offered if achieved is None else achieved
    return {
        "sweep": name,
        "offered": offered,
        "requests": 1000,
        "achieved": reached,
        "goodput": reached,
        "end_to_end_ms": {"p99": p99_ms},
        "refused": refused,
        "failed": 0,
    }


def test_a_rate_is_held_only_if_it_is_kept_up_within_the_objective_and_hardly_anyone_is_refused() -> None:
    assert holds(row("x", 100, 1999))
    assert not holds(row("x", 100, 2001))
    assert not holds(row("x", 100, 500, achieved=85))
    assert not holds(row("x", 100, 500, refused=11))
    assert not holds({**row("x", 100, 500), "end_to_end_ms": None})


def test_the_goodput_is_that_of_the_highest_rate_held_of_the_same_server() -> None:
    rows = [row("x", 50, 100), row("x", 90, 1500), row("x", 120, 4000), row("y", 200, 10)]
    assert best_goodput(rows, "x") == 90
    assert best_goodput(rows, "z") is None


def named(found: list[dict[str, Any]], start: str) -> dict[str, Any]:
    (one,) = [each for each in found if each["name"].startswith(start)]
    return one


def test_missing_measurement_is_reported_as_not_met() -> None:
    for goal in goals([]):
        assert (goal["value"], goal["met"], goal["why"]) == (None, None, "this part was not run")


def test_goals_compare_runs_in_pairs_and_take_the_median() -> None:
    rows: list[dict[str, Any]] = []
    for ours, theirs, later in ((1.0, 3.0, 10.0), (1.0, 1.0, 90.0), (2.0, 5.0, 20.0)):
        rows.append({"page": "all at once", "server": "Parlance", "last_s": ours, "first_later_ms": later})
        rows.append({"page": "all at once", "server": BATCHING, "last_s": theirs, "first_later_ms": 0.0})
    rows += [row("Parlance", 90, 100), row(BATCHING, 30, 100)]
    result = goals(rows)
    last = named(result, "page, all at once: time")
    assert (last["value"], last["met"]) == (2.5, True)
    first = named(result, "page, all at once: the first")
    assert (first["value"], first["met"]) == (20.0, True)
    goodput = named(result, "goodput")
    assert (goodput["value"], goodput["met"]) == (3.0, True)
    assert named(result, "page, 6 connections")["met"] is None
