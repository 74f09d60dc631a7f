"""The device's own time for one request, from two scrapes of the server's metrics."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from app.engine.metrics.collector import Metrics
from app.engine.metrics.request_metrics import RequestMetrics
from app.engine.protocol import messages as m
from benchmarks import occupancy
from benchmarks.overhead import device_s
from models.decoding.options import Hypothesis


def test_overhead_equals_the_device_report() -> None:
    metrics = Metrics()

    def ask(tokens: int, first_token_s: float, total_s: float) -> dict[str, float]:
        with RequestMetrics(metrics.by_model, "demo@1", 5) as meter:
            meter.sent("cpu")
            best = Hypothesis(tuple(range(tokens)), -1.0, -1.0, True)
            meter.answered(m.Finished(1, [best], m.Timing(0.001, first_token_s, total_s)))
        return occupancy.samples(generate_latest(metrics.scrape()).decode(), "demo")

    before = ask(9, 0.004, 0.050)
    after = ask(6, 0.003, 0.0182)
    assert device_s(before, after) == pytest.approx(0.0182)
    assert device_s(after, ask(1, 0.002, 0.002)) == pytest.approx(0.002)
