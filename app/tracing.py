"""Traces, where an operator wants them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from starlette.types import ASGIApp

from app.engine.counting import CountingEngine
from app.engine.jobs import Engine
from app.settings import Settings


class Tracing(NamedTuple):
    """engine: counts what it does for each request. around: what surrounds the routes. close: sends what is left."""

    engine: Engine
    around: Callable[[ASGIApp], ASGIApp]
    close: Callable[[], None]


def tracing_of(settings: Settings, engine: Engine, version: str) -> Tracing | None:
    """None where the settings name no collector. SystemExit with a sentence where OpenTelemetry is missing."""
    if not settings.otlp_endpoint:
        return None
    try:
        from app.api import telemetry
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("opentelemetry"):
            raise
        raise SystemExit(
            "Parlance cannot start: PARLANCE_OTLP_ENDPOINT needs OpenTelemetry; install it with"
            " pip install 'parlance[otel]'."
        ) from None
    spans = telemetry.spans_to(settings.otlp_endpoint, version)
    if spans is None:
        return None
    around = partial(telemetry.TracedRequests, spans=spans)
    return Tracing(cast(Engine, CountingEngine(engine)), around, spans.close)
