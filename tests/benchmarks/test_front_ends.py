"""The benchmark of front ends, briefly."""

from __future__ import annotations

import json

import pytest

from benchmarks.front_ends import main


def test_one_and_two_front_ends_are_measured_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "1", "--seconds", "0.5", "--connections", "8", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    one, two, ratio = result["rows"]
    assert (one["front_ends"], two["front_ends"]) == (1, 2)
    assert min(row[name] for row in (one, two) for name in ("requests_per_s", "front_ends_ms")) > 0
    assert two["engine_ms"] > 0
    assert "engine_ms" not in one
    assert result["goals"][0]["value"] == ratio["ratio"]
