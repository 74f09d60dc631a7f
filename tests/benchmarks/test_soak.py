"""What the soak takes for the same answer, and how it counts growth and drift."""

from __future__ import annotations

import pytest

from benchmarks.soak import drift, essence, growth
from benchmarks.wire import Answer

pytestmark = pytest.mark.bench


def answer(body: str, kind: bytes = b"application/json") -> Answer:
    return Answer(status=200, headers={b"content-type": kind}, body=body.encode())


def test_ids_times_and_devices_make_no_other_answer() -> None:
    first = (
        '{"text":"bier","seed":7,"timing_ms":{"encode":0.4},"devices":["cpu:0","cpu:1"],"request_id":"a","version":1}'
    )
    other = '{"text":"bier","seed":8,"timing_ms":{"encode":0.7},"devices":["cpu:0"],"request_id":"b","version":2}'
    assert essence(answer(first)) == essence(answer(other))
    assert essence(answer(first)) != essence(answer(other.replace("bier", "beer")))


def test_stream_is_its_last_text() -> None:
    stream = b"text/event-stream"
    first = 'event: token\ndata: {"text":"ein "}\n\nevent: done\ndata: {"text":"ein bier","seed":7}\n\n'
    other = 'event: token\ndata: {"text":"ein bier"}\n\nevent: done\ndata: {"text":"ein bier","seed":8}\n\n'
    assert essence(answer(first, stream)) == essence(answer(other, stream)) == b'"ein bier"'


def test_growth_leaves_out_the_first_sixth() -> None:
    samples = [{"s": float(s), "mb": 10.0 if s < 10 else 100.0 if s < 50 else 103.0} for s in range(60)]
    assert growth(samples, "mb", 60) == 3.0


def test_drift_compares_halves_after_the_first_sixth() -> None:
    calm = [(0.0, 9.0), *((float(s), 0.010) for s in range(10, 35)), *((float(s), 0.011) for s in range(35, 60))]
    assert drift(calm, 60) == (10.0, 11.0)
