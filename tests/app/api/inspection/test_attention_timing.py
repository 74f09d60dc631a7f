"""What an answer of POST /attention says of itself: how large it is, what it took, and when it is the same."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from app.api import responses
from app.engine.interface import AttentionQuery, AttentionResult, InspectionTimings
from models.inspection.results import AttentionFindings, Rollout
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine


class Timed(FakeEngine):
    """Takes longer for each request than for the one before."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.seconds = itertools.count(1)

    async def attention(self, request: AttentionQuery) -> AttentionResult:
        second = next(self.seconds)
        took = InspectionTimings(0.0001234 * second, None if request.target else 0.25 * second, 0.125 * second)
        return replace(await super().attention(request), took=took, max_source_tokens=40, max_target_tokens=30)


def test_the_parts_are_timed_and_a_search_only_where_there_was_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count(5.0, 0.0625)
    monkeypatch.setattr(responses.time, "perf_counter", lambda: next(ticks))
    client = Client(Timed())
    own = client.post("/attention", json={"source": "bier"}).json()["timing_ms"]
    assert own == {"encode": 0.123, "decode": 250.0, "attention": 125.0, "serialise": 62.5}
    forced = client.post("/attention", json={"source": "bier", "target": "ale"}).json()["timing_ms"]
    assert forced == {"encode": 0.247, "attention": 250.0, "serialise": 62.5}


def test_etag_ignores_the_elapsed_time() -> None:
    client = Client(Timed())
    one, two = (client.post("/attention", json={"source": "bier"}) for _ in range(2))
    assert one.json()["timing_ms"]["decode"] * 2 == two.json()["timing_ms"]["decode"]
    assert one.headers["ETag"] == two.headers["ETag"]
    for other in ({"kinds": ["cross"]}, {"decimals": 4}, {"encoding": "u8"}, {"target": "ale"}):
        assert client.post("/attention", json={"source": "bier"} | other).headers["ETag"] != one.headers["ETag"], other


def test_known_etag_is_answered_completely() -> None:
    """304 is for GET and HEAD."""
    client = Client(Timed())
    tag = client.post("/attention", json={"source": "bier"}).headers["ETag"]
    again = client.post("/attention", json={"source": "bier"}, headers={"If-None-Match": tag})
    assert (again.status_code, again.headers["ETag"], again.json()["model"]) == (200, tag, "tiny-de-en")


def test_an_answer_says_how_large_it_is_and_how_large_it_may_be() -> None:
    engine = Timed(
        findings=AttentionFindings(-0.5, rollout=Rollout([[0.5, 0.5]] * 2, [[1.0, 0.0]] * 3, [0.5] * 3, "m", "c"))
    )
    client = Client(engine, max_attention_values=1000)
    answer = client.post("/attention", json={"source": "bier", "include": ["rollout"]}).json()
    assert answer["limits"] == {
        "values": 3 * 4 + 2 * 2 + 3 * 2,
        "json": 1000,
        "binary": 4000,
        "source_tokens": 40,
        "target_tokens": 30,
    }
