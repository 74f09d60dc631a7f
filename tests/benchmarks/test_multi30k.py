"""How the reproduction adds its seeds up, and that a test set is never read twice."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import multi30k


def result(value: float) -> dict[str, Any]:
    forms = dict.fromkeys(("cased", "lowercased", "moses", "spacy"), value)
    return {"beam 1": forms, "beam 5": {name: score + 1 for name, score in forms.items()}}


def test_mean_and_spread_over_the_seeds() -> None:
    rows = multi30k.rows_of({1: result(40.0), 2: result(41.0), 3: result(42.0)})
    assert [(row["seed"], row["beam"], row["cased"]) for row in rows[:6]] == [
        *((1, 1, 40.0), (1, 5, 41.0), (2, 1, 41.0), (2, 5, 42.0), (3, 1, 42.0), (3, 5, 43.0))
    ]
    assert [(row["seeds"], row["beam"], row["moses"]) for row in rows[6:]] == [
        *((3, 1, "41.00 ± 1.00"), (3, 5, "42.00 ± 1.00"))
    ]


def test_a_single_seed_has_no_spread() -> None:
    assert [row["seed"] for row in multi30k.rows_of({7: result(40.0)})] == [7, 7]


@pytest.mark.parametrize(
    ("direction", "value", "met"), [("de-en", 41.0, True), ("en-de", 41.0, True), ("en-de", 40.9, False)]
)
def test_goals_compare_in_the_form_of_the_others(direction: str, value: float, met: bool) -> None:
    """de-en is greedy; en-de takes beam 5, which is a point better here."""
    assert multi30k.goal_of(direction, {1: result(value)})["met"] is met


def test_a_test_set_that_was_scored_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "model.test.json").write_text(json.dumps(result(40.0)), encoding="utf-8")
    arguments = argparse.Namespace(data=tmp_path / "nowhere", direction="de-en")
    assert multi30k.test(arguments, tmp_path / "model") == result(40.0)
