"""How the reproduction adds its seeds up, and that a test set is never read twice."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from benchmarks import multi30k


def result(value: float) -> dict[str, Any]:
    forms = ("cased", "lowercased", "moses", "spacy")
    return {way: dict.fromkeys(forms, value + place) for place, way in enumerate(multi30k.WAYS)}


def test_mean_and_spread_over_the_seeds() -> None:
    rows = multi30k.rows_of({1: result(40.0), 2: result(41.0), 3: result(42.0)})
    greedy, beam = multi30k.WAYS
    assert [(row["seed"], row["search"], row["cased"]) for row in rows[:3]] == [
        *((1, greedy, 40.0), (1, beam, 41.0), (2, greedy, 41.0))
    ]
    assert [(row["seeds"], row["search"], row["moses"]) for row in rows[6:]] == [
        *((3, greedy, "41.00 ± 1.00"), (3, beam, "42.00 ± 1.00"))
    ]


def test_a_single_seed_has_no_spread() -> None:
    assert [row["seed"] for row in multi30k.rows_of({7: result(40.0)})] == [7, 7]


@pytest.mark.parametrize(
    ("direction", "value", "met"),
    [("de-en", 41.0, True), ("de-en", 40.9, False), ("en-de", 41.0, True), ("en-de", 40.9, False)],
)
def test_goals_compare_in_the_form_of_the_others(direction: str, value: float, met: bool) -> None:
    """de-en is greedy; en-de takes the beam, which is a point better here."""
    assert multi30k.goal_of(direction, [result(value)])["met"] is met


def test_reranking_needs_an_ensemble(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--rerank is of an --ensemble"):
        multi30k.main(["--data", str(tmp_path), "--out", str(tmp_path), "--rerank"])


def test_an_ensemble_of_one_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--seeds 1 2"):
        multi30k.main(["--data", str(tmp_path), "--out", str(tmp_path), "--ensemble"])


def test_a_test_set_that_was_scored_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "model.test.json").write_text(json.dumps(result(40.0)), encoding="utf-8")
    arguments = argparse.Namespace(data=tmp_path / "nowhere", direction="de-en", moses=False)
    assert multi30k.test(arguments, "model", [tmp_path / "other"]) == result(40.0)


def test_a_package_that_scores_need_is_missed_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*given: Any) -> None:
        raise ModuleNotFoundError("No module named 'sacremoses'")

    trained = mock.Mock()
    monkeypatch.setattr(multi30k, "scores", missing)
    monkeypatch.setattr(multi30k, "trained", trained)
    with pytest.raises(ModuleNotFoundError, match="sacremoses"):
        multi30k.main(["--data", str(tmp_path), "--out", str(tmp_path)])
    trained.assert_not_called()


@pytest.mark.parametrize(
    ("asked", "name", "members"),
    [
        (["--ensemble"], "multi30k-en-de-1+2", ["multi30k-en-de-1", "multi30k-en-de-2"]),
        (
            ["--ensemble", "all", "--teachers", "2"],
            "multi30k-en-de-1+2+2-teachers",
            [*(f"multi30k-en-de-{n}" for n in (1, 2)), *(f"teachers/multi30k-en-de-{n}" for n in (1, 2))],
        ),
        (
            ["--ensemble", "--rerank"],
            "multi30k-en-de-1+2-reranked",
            ["multi30k-en-de-1", "multi30k-en-de-2"],
        ),
    ],
)
def test_an_ensemble_is_scored_under_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str], name: str, members: list[str]
) -> None:
    scored: dict[str, list[Path]] = {}
    printed: list[Any] = []

    reranked: dict[str, list[Path]] = {}

    def scores_of(
        arguments: argparse.Namespace, name: str, folders: list[Path], rerankers: Sequence[Path] = ()
    ) -> dict[str, Any]:
        scored[name], reranked[name] = folders, list(rerankers)
        return result(41.0 if len(folders) > 1 else 40.0)

    monkeypatch.setattr(multi30k, "scores", lambda *given: None)
    monkeypatch.setattr(
        multi30k, "trained", lambda arguments: {n: tmp_path / f"multi30k-en-de-{n}" for n in arguments.seeds}
    )
    monkeypatch.setattr(multi30k, "test", scores_of)
    monkeypatch.setattr(multi30k, "finish", lambda *given: printed.extend(given))
    given = ["--data", str(tmp_path), "--out", str(tmp_path), "--direction", "en-de", "--seeds", "1", "2"]
    multi30k.main([*given, *asked])
    assert scored[name] == [tmp_path / member for member in members]
    assert reranked[name] == [tmp_path / "teachers" / "multi30k-de-en-1"] * ("--rerank" in asked)
    _, rows, aims = printed
    assert [row["moses"] for row in rows if "ensemble" in row] == [41.0, 42.0]
    assert [(aim["value"], f"ensemble of {len(members)}" in aim["name"]) for aim in aims] == [
        (41.0, False),
        (42.0, True),
    ]
