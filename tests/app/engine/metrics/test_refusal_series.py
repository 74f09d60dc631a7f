"""Every way to be refused has a series at 0 from the start, so that rates see the first refusal too."""

from __future__ import annotations

from prometheus_client import generate_latest

from app import errors
from app.engine.metrics.collector import REFUSED, Metrics


def kinds(error: type[errors.EngineError]) -> list[type[errors.EngineError]]:
    return [error, *(kind for child in error.__subclasses__() for kind in kinds(child))]


def test_every_refusal_reason_has_a_series_from_the_start() -> None:
    text = generate_latest(Metrics().scrape()).decode()
    bases = {errors.EngineError, errors.RetryLater}
    begun = {*bases, errors.DeadlineExceeded, errors.EngineFailed, errors.Overloaded}  # or has reasons
    codes = {
        kind.code for kind in kinds(errors.EngineError) if kind not in begun and kind.__module__ == errors.__name__
    }
    assert {"model_conflict", "checkpoint_refused", "unknown_pair"} < codes <= set(REFUSED)
    for reason in REFUSED:
        assert f'parlance:request_refused_total{{reason="{reason}"}} 0.0' in text
