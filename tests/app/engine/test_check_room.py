"""Refusals before a request is read, for every kind of request."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine import admission as throughput
from app.engine.admission import Admission, Demand, Throughput
from app.engine.async_engine import AsyncEngine
from app.engine.interface import EngineSettings
from app.errors import EngineUnavailable, Overloaded


def test_no_room_for_the_smallest_request() -> None:
    admission = Admission(2, 100)
    admission.check_room()
    with admission.admitted(Demand("a", 1, 99, 10, 1)):
        admission.check_room()  # one more token fits
        with admission.admitted(Demand("a", 1, 1, 1, 1)), pytest.raises(Overloaded) as refused:
            admission.check_room()
        assert refused.value.reason == "overloaded_requests"
        admission.check_room()
    with admission.admitted(Demand("a", 1, 100, 10, 1)), pytest.raises(Overloaded) as refused:
        admission.check_room()
    assert refused.value.reason == "overloaded_tokens"


def test_draining_service_refuses(tmp_path: Path) -> None:
    pool = AsyncEngine(EngineSettings(checkpoints=tmp_path, devices="cpu"))
    pool.check_room()
    pool.admission.draining = True
    with pytest.raises(EngineUnavailable, match="shutting down"):
        pool.check_room()


def test_rate_forgets_old_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(throughput.time, "monotonic", lambda: now)
    measured = Throughput()
    measured.run(True)
    for second in range(60):
        now = 101.0 + second
        measured.finished(10 if second < 40 else 4)
    now = 161.0  # the last 30 s hold, at 131 to 160, ten of 10 and twenty of 4
    assert measured.rate() == pytest.approx((10 * 10 + 20 * 4) / 30)
    now = 176.0
    assert measured.rate() == pytest.approx(15 * 4 / 30)
    now = 400.0
    assert measured.rate() is None
