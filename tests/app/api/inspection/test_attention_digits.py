"""Numbers beside the maps have the digits that mean something: they stay as near as they say, and sums still agree."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from app.api.inspection.schemas import round_float32
from models.inspection.results import (
    Ablation,
    Alignment,
    AttentionFindings,
    Candidate,
    DecoderStep,
    HeadStatistics,
    Rollout,
    WorkedRow,
)
from models.inspection.selection import Head
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine

DRAWN = np.random.default_rng(5)


def rows(count: int, length: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return DRAWN.dirichlet([0.3] * length, size=count).astype(np.float32)


ENCODER, CROSS, SHARES = rows(9, 9), rows(2000, 9), DRAWN.uniform(size=2000).astype(np.float32)
LOGPROBS = (-DRAWN.exponential(2.0, size=2000)).astype(np.float32)
WEIGHTS, SCORES = rows(1, 9)[0], DRAWN.normal(0, 40, size=9).astype(np.float32)
FOUND = AttentionFindings(
    logprob_sum=float(LOGPROBS.sum(dtype=np.float64)),
    stats={"cross": [[HeadStatistics(*(float(x) for x in WEIGHTS), "mixed")]]},
    rollout=Rollout(ENCODER.tolist(), CROSS.tolist(), SHARES.tolist(), "method", "caveat"),
    alignment=Alignment([(0, 0, float(WEIGHTS[0]) / 3)], "0-0", "word", [(0, 0)], "predicting", 0.0672),
    steps=[DecoderStep(float(x), 1, float(-x) / 3, [Candidate(5, float(x), "a", "a")]) for x in LOGPROBS],
    ablation=Ablation([Head("cross", 0, 0)], -1 / 3, -2 / 3, [-1 / 3, 1e-9], [9], "ale"),
    qk=WorkedRow("cross", 0, 0, 1, 32**-0.5, SCORES.tolist(), [True] * 9, WEIGHTS.tolist()),
)


def answer(**fields: Any) -> Any:
    made = Client(FakeEngine(findings=FOUND, weights=[[[WEIGHTS.tolist()]]])).post(
        "/attention", json={"source": "bier", **fields}
    )
    assert not re.search(rb"\d\.\d{10}", re.sub(rb'"timing_ms".*|"scale":[^,]*', b"", made.content)), "digits of noise"
    return made.json()


@pytest.mark.parametrize(("decimals", "most"), [(3, 0.000501), (8, 2.5e-7)])
@pytest.mark.parametrize("encoding", ["json", "u8"])
def test_rollout_has_the_requested_decimals_in_any_encoding(decimals: int, most: float, encoding: str) -> None:
    rollout = answer(decimals=decimals, encoding=encoding)["rollout"]
    error = rollout["max_abs_error"]
    assert (rollout["decimals"], error <= most) == (decimals, True)
    for name, computed in (("encoder", ENCODER), ("cross", CROSS), ("source_share", SHARES)):
        shown = np.array(rollout[name])
        assert np.abs(shown - computed).max() <= error, name
        assert (shown == np.round(shown, decimals)).all()
    for name in ("encoder", "cross"):
        assert np.abs(np.sum(rollout[name], axis=-1) - 1).max() <= 9 * error


def test_two_thousand_log_probabilities_still_add_up_to_their_sum() -> None:
    result = answer()
    assert math.fsum(step["logprob"] for step in result["steps"]) == pytest.approx(FOUND.logprob_sum, abs=1e-4)
    assert result["target"]["logprob_sum"] == pytest.approx(FOUND.logprob_sum, abs=5.1e-8)
    for step, computed in zip(result["steps"], LOGPROBS.tolist(), strict=True):
        assert step["logprob"] == step["top"][0]["logprob"] == pytest.approx(computed, abs=5.1e-8)
        assert step["entropy_nats"] == pytest.approx(-computed / 3, abs=5.1e-8)


def test_other_numbers_are_within_their_decimals() -> None:
    result = answer()
    assert result["alignment"]["links"] == [[0, 0, round(float(WEIGHTS[0]) / 3, 6)]]
    assert result["alignment"]["error"] == 0.0672
    shown = list(result["stats"]["cross"][0][0].values())
    assert shown == [round(float(x), 6) for x in WEIGHTS] + ["mixed"]
    without = result["ablation"]
    assert (without["logprob_sum_before"], without["logprob_sum_after"]) == (-0.3333333, -0.6666667)
    assert without["per_step_delta"] == [-0.3333333, 0.0]


@pytest.mark.parametrize("decimals", [3, 8])
def test_a_worked_row_is_written_as_the_row_of_the_map(decimals: int) -> None:
    result = answer(decimals=decimals)
    assert result["qk"]["softmax"] == result["attention"]["cross"]["weights"][0][0][0]
    assert np.abs(np.array(result["qk"]["scores"]) - SCORES).max() <= 5.1e-7
    assert result["qk"]["scale"] == 0.176776695


def test_walkthrough_has_seven_digits() -> None:
    for value in (*SCORES.tolist(), 4.921661744816674e-9, -0.0):
        shown = round_float32(value)
        assert shown is not None
        assert np.float32(shown) == pytest.approx(np.float32(value), rel=5.1e-7)
        assert len(repr(abs(shown)).split("e")[0].replace(".", "").lstrip("0")) <= 7
    assert (round_float32(None), repr(round_float32(-0.0))) == (None, "0.0")
