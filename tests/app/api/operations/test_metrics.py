"""GET /metrics, and what requests leave there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from app import errors
from app.engine.interface import PoolStatus
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine
from tests.readme import ROOT

TRANSLATE = {"q": "hallo", "source": "de", "target": "en"}


def scraped(client: Client) -> dict[tuple[str, ...], float]:
    """(name, label values in order of label names) -> value, without zeros."""
    answer = client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    samples = [sample for family in parse(answer.text) for sample in family.samples if sample.value]
    return {(s.name.removeprefix("parlance:"), *(v for _, v in sorted(s.labels.items()))): s.value for s in samples}


def test_openmetrics_format_is_negotiated() -> None:
    client = Client()
    plain = {f.name for f in parse(client.get("/metrics").text)}
    asked = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2"
    answer = client.get("/metrics", headers={"Accept": asked})
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = list(parse_openmetrics(answer.text))
    assert {f.name for f in families} == plain
    assert {s.name for f in families for s in f.samples if s.name.startswith("parlance_")} == set()


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (errors.Overloaded("Later.", retry_after_s=3, reason="overloaded_requests"), "overloaded_requests"),
        (errors.EngineUnavailable("Later.", reason="loading"), "loading"),
        (errors.TextTooLong("No."), "text_too_long"),
    ],
)
def test_a_refusal_is_counted_by_its_reason(failure: errors.EngineError, reason: str) -> None:
    client = Client(FakeEngine(failure=failure))
    client.post("/translate", json=TRANSLATE)
    assert {key: count for key, count in scraped(client).items() if "refused" in key[0]} == {
        ("request_refused_total", reason): 1
    }


def test_translation_while_models_load_is_a_refusal_for_loading() -> None:
    client = Client(FakeEngine(loaded=[], pool_status=PoolStatus(False, {"cpu": "starting"}, 0, ())))
    assert client.post("/translate", json=TRANSLATE).status_code == 503
    refusals = {key[1]: count for key, count in scraped(client).items() if key[0] == "request_refused_total"}
    assert refusals == {"loading": 1}


def test_device_failure_is_not_counted_as_a_refusal() -> None:
    failure = errors.EngineFailed("No.")
    failure.was_sent = True
    client = Client(FakeEngine(failure=failure))
    assert client.post("/translate", json=TRANSLATE).status_code == 500
    assert not any("refused" in key[0] for key in scraped(client))


def test_invalid_requests_are_refused_too() -> None:
    client = Client()
    client.post("/generate", json={"prompt": 3})
    client.post("/generate", json={"prompt": "a", "model": "nobody"})
    result = scraped(client)
    assert [result["request_refused_total", r] for r in ("invalid_request", "unknown_model")] == [1, 1]


def test_client_input_never_becomes_a_label() -> None:
    client = Client()
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/translate", {"json": TRANSLATE}),
        ("POST", "/translate", {"json": {**TRANSLATE, "model": "made-up", "source": "made-up"}}),
        ("POST", "/generate", {"json": {"prompt": "made-up", "model": "made-up"}}),
        ("GET", "/made-up", {"headers": {"X-Request-Id": "made-up", "Authorization": "Bearer made-up"}}),
        ("GET", "/docs-assets/made-up", {}),
        ("MADE-UP", "/translate", {}),
        ("DELETE", "/translate?made-up", {}),
    ]
    for method, path, options in requests:
        client.request(method, path, **options)
    result = scraped(client)
    assert "made-up" not in client.get("/metrics").text.lower()
    counted = {key[1:]: count for key, count in result.items() if key[0] == "http_requests_total"}
    statuses = [client.request(method, path, **options).status_code for method, path, options in requests]
    assert counted[("POST", "/translate", "200")] == 1
    assert counted[("POST", "/generate", "404")] == 1
    assert counted[("GET", "other", "404")] == 2
    assert sum(counted.values()) == len(requests) == len(statuses)


def test_an_exception_of_ours_is_counted_as_500() -> None:
    client = Client(FakeEngine(failure=RuntimeError("no")))
    client.post("/translate", json=TRANSLATE)
    assert scraped(client)["http_requests_total", "POST", "/translate", "500"] == 1


def test_every_metric_stands_in_the_readme_and_no_other() -> None:
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    families = [f for f in parse(Client().get("/metrics").text) if f.name.startswith("parlance:")]
    there = {f.name.removeprefix("parlance:") + "_total" * (f.type == "counter") for f in families}
    assert documented - {""} == there, "docs/metrics.md has a row for each metric"
