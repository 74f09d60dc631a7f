"""Inspection answers: gzip where the client accepts it, and an ETag of the content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.engine.interface import ScoreQuery, ScoreResult
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine


class Long(FakeEngine):
    async def score(self, request: ScoreQuery) -> ScoreResult:
        result = await super().score(request)
        return replace(result, tokens=result.tokens * 40, steps=result.steps * 40)


def engine() -> FakeEngine:
    gates = np.full((1, 500, 1), 0.25, dtype=np.float32)
    return Long(gate_values=gates, weights=[[[[0.125] * 40] * 40]])


LOOKS: dict[str, dict[str, Any]] = {
    "/attention": {"source": "bier"},
    "/gates": {"text": "分开"},
    "/score": {"source": "bier", "target": "beer"},
}


@pytest.mark.parametrize("path", LOOKS)
def test_long_answer_is_compressed_if_accepted(path: str) -> None:
    client = Client(engine())
    plain, packed, refused = (
        client.post(path, json=LOOKS[path], headers={"Accept-Encoding": each})
        for each in ("identity", "gzip", "gzip;q=0")
    )
    assert packed.headers["Content-Encoding"] == "gzip"
    assert {"Content-Encoding"} & {*plain.headers, *refused.headers} == set()
    assert int(packed.headers["Content-Length"]) * 3 < int(plain.headers["Content-Length"])
    bodies = [each.json() | {"timing_ms": None} for each in (plain, packed, refused)]
    assert bodies[0] == bodies[1] == bodies[2]
    for each in (plain, packed, refused):
        assert each.headers["Vary"] == "Accept-Encoding"
        assert each.headers["ETag"] == plain.headers["ETag"]
        assert each.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("path", LOOKS)
def test_etags_differ_with_the_content(path: str) -> None:
    one, two = (Client(each).post(path, json=LOOKS[path]).headers["ETag"] for each in (engine(), FakeEngine()))
    assert one != two
