from __future__ import annotations

import time

import pytest

from app.engine.admission import Admission
from app.engine.errors import InvalidRequest, Overloaded


def test_requests_and_tokens_are_bounded_and_come_back() -> None:
    admission = Admission(max_requests=3, max_tokens=100)
    with admission.admitted(2, 60):
        with pytest.raises(Overloaded, match="try again in 1 second"), admission.admitted(1, 41):
            pass
        with pytest.raises(Overloaded), admission.admitted(2, 1):
            pass
        with admission.admitted(1, 40):
            assert (admission.requests, admission.tokens) == (3, 100)
    assert (admission.requests, admission.tokens) == (0, 0)


def test_room_comes_back_when_the_request_fails() -> None:
    admission = Admission(3, 100)
    with pytest.raises(KeyError), admission.admitted(1, 10):
        raise KeyError
    assert (admission.requests, admission.tokens) == (0, 0)


def test_what_can_never_fit_is_the_senders_to_mend() -> None:
    with pytest.raises(InvalidRequest, match="Send it in parts"), Admission(3, 100).admitted(1, 101):
        pass
    with pytest.raises(InvalidRequest, match="4 sequences"), Admission(3, 100).admitted(4, 1):
        pass


def test_retry_after_is_the_outstanding_work_over_the_measured_throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    admission = Admission(100, 100_000)
    for _ in range(4):  # 4 × 50 tokens finish over the next 10 seconds
        with admission.admitted(1, 50):
            pass
        now[0] += 2.5
    with admission.admitted(1, 300):
        assert admission.retry_after_s() == 15  # 300 tokens at 200 tokens / 10 s
    now[0] += 100
    assert admission.retry_after_s() == 1  # an idle service has no reason to send anyone away for long


def test_a_service_that_is_never_full_forgets_what_is_long_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    admission = Admission(3, 100)
    for _ in range(200):
        with admission.admitted(1, 10):
            now[0] += 1.0
    assert len(admission._finished) <= 31
