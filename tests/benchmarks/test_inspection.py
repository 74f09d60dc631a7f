"""The benchmark's requests and measures; its times are not checked here."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pytest

from benchmarks import inspection
from benchmarks.inspection import body_of, compressed, goals, peaked, request
from benchmarks.shapes import SHAPES
from benchmarks.wire import Answer

SMOKE = SHAPES["smoke"]


def test_a_request_asks_for_gzip_and_for_so_many_tokens_on_either_side() -> None:
    head, body = request(SMOKE, 8).split(b"\r\n\r\n")
    assert head.startswith(b"POST /attention HTTP/1.1\r\nAccept-Encoding: gzip\r\n")
    sent = json.loads(body)
    assert (len(sent["source"].split()), len(sent["target"].split())) == (8, 7)  # and the start token
    assert (sent["kinds"], sent["encoding"]) == (["cross"], "u8")


def test_peaked_rows_are_distributions_that_no_even_row_is_like() -> None:
    weights = peaked(SHAPES["base"], 64)
    assert weights.shape == (6, 8, 64, 64)
    assert np.abs(weights.sum(axis=-1) - 1).max() <= 1e-6
    assert weights.max(axis=-1).mean() > 0.3  # 1/64 where it is even


def test_the_gzipped_u8_of_the_promised_size_fits() -> None:
    row = compressed(SHAPES["base"], 64)
    assert row["gzipped_kb"] <= inspection.MOST_KB
    assert row["unpacked_kb"] >= 6 * 8 * 64 * 64 * 4 / 3 / 1000  # base64


def test_goals_are_of_the_shipped_server_and_of_the_other_one() -> None:
    served = [{"wire_kb": kb, "median_ms": ms} for kb, ms in ((97.0, 185.0), (97.0, 149.0))]
    results = goals(*served, {"gzipped_kb": 80.0})
    assert [(result["value"], result["met"]) for result in results] == [
        (97.0, True),
        (80.0, True),
        (185.0, False),
        (149.0, True),
    ]


def test_an_answer_is_unpacked_and_a_refusal_is_no_answer() -> None:
    packed = Answer(200, {b"content-encoding": b"gzip"}, gzip.compress(b"{}"))
    assert body_of(packed) == body_of(Answer(200, {}, b"{}")) == b"{}"
    with pytest.raises(RuntimeError, match="status 422"):
        body_of(Answer(422, {}, b"too large"))


@pytest.mark.slow  # another interpreter imports torch
def test_without_bertviz_there_is_no_figure_but_a_reason() -> None:
    assert inspection.bertviz_page(SMOKE, 4, None)["unpacked_kb"] is None
    row = inspection.bertviz_page(SMOKE, 4, f"{sys.executable}")
    assert row["unpacked_kb"] is None or row["unpacked_kb"] > 0
    assert row["unpacked_kb"] is not None or "bertviz" in row["why"]


@pytest.mark.slow  # it starts servers
def test_a_run_at_a_small_shape() -> None:
    rows = inspection.measure(SMOKE, 8, 1, None)
    assert [row["server"] for row in rows[:2]] == list(inspection.SERVERS)
    assert all(0 < row["wire_kb"] <= row["unpacked_kb"] for row in rows[:2])
    assert len(goals(*rows[:3])) == 4
