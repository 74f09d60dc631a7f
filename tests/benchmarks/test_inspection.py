"""The benchmark's requests and measures; its times are not checked here."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pytest

from benchmarks import inspection
from benchmarks.inspection import ASKED, HEADLINE, body_of, compressed, goals, peaked, request
from benchmarks.shapes import SHAPES
from benchmarks.wire import Answer

SMOKE = SHAPES["smoke"]


def test_a_request_asks_for_gzip_and_for_so_many_tokens_on_either_side() -> None:
    head, body = request(HEADLINE, SMOKE, 8).split(b"\r\n\r\n")
    assert head.startswith(b"POST /attention HTTP/1.1\r\nAccept-Encoding: gzip\r\n")
    sent = json.loads(body)
    assert (len(sent["source"].split()), len(sent["target"].split())) == (8, 7)  # and the start token
    assert (sent["kinds"], sent["encoding"]) == (["cross"], "u8")
    assert request("pharaoh", SMOKE, 8).startswith(b"POST /attention?format=pharaoh HTTP/1.1")
    assert len({request(name, SMOKE, 8) for name in ASKED}) == len(ASKED)


def test_peaked_rows_are_distributions_that_no_even_row_is_like() -> None:
    weights = peaked(SHAPES["base"], 64)
    assert weights.shape == (6, 8, 64, 64)
    assert np.abs(weights.sum(axis=-1) - 1).max() <= 1e-6
    assert weights.max(axis=-1).mean() > 0.3  # 1/64 where it is even


def test_the_gzipped_u8_of_the_promised_size_fits() -> None:
    rows = {row["encoded"].rsplit(", ", 1)[1]: row for row in compressed(SHAPES["base"], 64)}
    assert rows["u8"]["gzipped_kb"] <= inspection.MOST_KB
    assert rows["u8"]["gzipped_kb"] < rows["u16"]["gzipped_kb"] < rows["f32"]["gzipped_kb"]
    assert rows["u8"]["unpacked_kb"] >= 6 * 8 * 64 * 64 * 4 / 3 / 1000  # base64
    assert rows["f32"]["max_abs_error"] == 0


def test_goals_are_of_the_shipped_server_and_of_the_other_one() -> None:
    peaked_row = {"encoded": "softmax(N(0, 3)), one kind, u8", "gzipped_kb": 80.0}
    served = [{"asked": HEADLINE, "wire_kb": kb, "median_ms": ms} for kb, ms in ((97.0, 185.0), (97.0, 149.0))]
    results = goals([*served, {"asked": "pharaoh", "wire_kb": 0.4, "median_ms": 1.0}, peaked_row])
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
    by_name = {row["asked"]: row for row in rows if row.get("server") == "as shipped"}
    assert set(by_name) == set(ASKED)
    assert by_name["all three kinds, u8"]["shapes"] == {kind: [2, 4, 8, 8] for kind in inspection.KINDS}
    assert by_name["one head, json of 4 decimals"]["shapes"] == {"cross": [1, 1, 8, 8]}
    assert all(row["wire_kb"] <= row["unpacked_kb"] for row in by_name.values())
    assert len(goals(rows)) == 4
