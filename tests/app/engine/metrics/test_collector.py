"""The scraped metrics: beats, gauges, names, formats."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from app import errors
from app.engine.interface import ModelInfo, PoolStatus
from app.engine.metrics import Metrics, RequestMetrics
from app.engine.protocol import messages as m
from tests.app.engine.scripted_device import GAUGES, a_request, finished, gauges_there, value
from tests.readme import ROOT


def lane(model: str, **change: Any) -> m.ModelStatistics:
    full = {name: change.pop(name, 0) for name in ("rows", "active", "waiting")}
    return m.ModelStatistics(model=model, slots=8, **full, done=m.Tally(**change))


def test_a_beat_is_added_up_over_the_versions_of_a_model() -> None:
    metrics = Metrics()
    both = [
        lane("demo@1", rows=2, step_seconds=[0.003, 0.03], step_rows=6, read_tokens=10, padded_tokens=4),
        lane("demo@2", rows=4, active=2, waiting=3, step_seconds=[0.003], cancelled_tokens=5),
    ]
    for _ in range(2):
        metrics.heartbeat("cpu", m.Heartbeat(both))
    of = {"model_name": "demo", "device": "cpu"}
    assert value(metrics, "step_duration_seconds_count", **of) == 6
    assert value(metrics, "step_duration_seconds_sum", **of) == pytest.approx(0.072)
    assert value(metrics, "step_duration_seconds_bucket", le="0.005", **of) == 4
    totals = ("step_rows_total", "prefill_tokens_total", "prefill_padded_tokens_total", "cancelled_tokens_total")
    assert [value(metrics, name, **of) for name in totals] == [12, 20, 8, 10]


def test_gauges_follow_beats_while_there_is_work_and_are_zero_at_once_when_there_is_none() -> None:
    metrics = Metrics()

    def gauges() -> list[float]:
        return [value(metrics, name, model_name="demo", device="cpu") for name in GAUGES]

    requests = [a_request(metrics) for _ in range(5)]
    assert gauges_there(metrics) == {"num_requests_running", "num_requests_waiting"}  # no beat yet: no slots known
    metrics.heartbeat("cpu", m.Heartbeat([lane("demo@1", rows=6, active=3, waiting=2)]))
    assert gauges() == [3, 2, 8, 6, 0.75]
    for request in requests[:4]:
        request.__exit__(None, None, None)
    assert gauges() == [0, 1, 8, 6, 0.75]  # never more than there are
    requests[4].__exit__(None, None, None)
    requests[4].__exit__(None, None, None)  # an end is an end
    assert gauges() == [0, 0, 8, 0, 0]
    metrics.device_ended("cpu", died=True)
    assert gauges_there(metrics) == set()


def test_gauges_of_a_device_that_reports_no_more_are_left_out() -> None:
    """It hangs, or computes one thing for long: what it said last is not what is true now."""
    now_s = 100.0
    metrics = Metrics(clock=lambda: now_s)
    a_request(metrics)
    report = m.Heartbeat([lane("demo@1", rows=6, active=3, waiting=1, step_seconds=[0.003])])
    metrics.heartbeat("cpu", report)
    metrics.heartbeat("cuda:0", report)
    of = {"model_name": "demo", "device": "cpu"}
    now_s += 2.5
    metrics.heartbeat("cuda:0", report)
    assert value(metrics, "slots_used", **of) == 6
    assert value(metrics, "num_requests_waiting", **of) == 1
    now_s += 1.5
    assert [value(metrics, "device_report_age_seconds", device=name) for name in ("cpu", "cuda:0")] == [4, 1.5]
    families = {family.name: family.samples for family in metrics.collect()}
    for name in ("slots", "slots_used", "kv_cache_usage_perc"):
        assert {sample.labels["device"] for sample in families[f"parlance:{name}"]} == {"cuda:0"}, name
    # how many sequences wait is not known, and how many the front end awaits is
    assert [value(metrics, f"num_requests_{state}", **of) for state in ("running", "waiting")] == [1, 0]
    assert value(metrics, "step_duration_seconds_count", **of) == 1
    metrics.heartbeat("cpu", report)
    assert value(metrics, "device_report_age_seconds", device="cpu") == 0
    assert value(metrics, "slots_used", **of) == 6
    metrics.device_ended("cpu", died=True)
    ages = [family for family in metrics.collect() if family.name == "parlance:device_report_age_seconds"]
    assert [sample.labels["device"] for family in ages for sample in family.samples] == ["cuda:0"]


def documented_sources() -> dict[str, str]:
    """Family -> its source, by the table of docs/metrics.md."""
    table = (ROOT / "docs/metrics.md").read_text("utf-8").partition("| `parlance:` | what | source |")[2]
    result = {}
    for row in table.partition("\n\n")[0].splitlines()[2:]:
        names, _, source, *_ = row.strip("| ").replace("\\|", "").split("|")
        result |= dict.fromkeys(re.findall(r"`(\w+)`", names), source.strip())
    return {name.removesuffix("_total"): source for name, source in result.items()}


def test_documentation_tells_what_is_live_from_what_is_reported() -> None:
    """A report of a device changes the families whose source is the report, and no other."""
    info = ModelInfo("demo", "lyrics", "gru", 1, None, None, 1, None, 1, ("cpu",))
    status = PoolStatus(True, {"cpu": "ready"}, 1, ())
    metrics = Metrics(clock=lambda: 0.0)
    metrics.watch(cast(Any, SimpleNamespace(status=lambda: status, models=lambda: [info])))
    for _ in range(5):
        a_request(metrics)

    def families() -> dict[str, list[Any]]:
        # those of the process change by themselves
        return {
            family.name.removeprefix("parlance:"): [(s.name, s.labels, s.value) for s in family.samples]
            for family in metrics.scrape().collect()
            if family.name.startswith("parlance:")
        }

    before = families()
    work = {field.name: [0.1] if field.name == "step_seconds" else 5 for field in msgspec.structs.fields(m.Tally)}
    metrics.heartbeat("cpu", m.Heartbeat([lane("demo@1", rows=6, active=3, waiting=2, **work)]))
    after = families()
    sources = documented_sources()
    assert sources.keys() == after.keys(), "docs/metrics.md has a row for each metric"
    changed = {name for name, samples in after.items() if samples != before[name]}
    reported = {name for name, source in sources.items() if "reported" in source}
    assert changed - {"device_report_age_seconds"} == reported  # the age itself is the front end's
    assert set(sources.values()) == {"live", "reported", "live; their split: reported"}


def test_every_number_that_a_device_reports_is_a_counter() -> None:
    others = {"step_seconds", "cancelled_work"}  # a histogram, and what admission reckons with
    missing = {field.name for field in msgspec.structs.fields(m.Tally)} - m.counted_fields().keys() - others
    assert not missing, "give the field of `messages.Tally` the title and description of its counter"


def test_devices_and_models_are_looked_up_at_each_scrape() -> None:
    info = ModelInfo("demo", "lyrics", "gru", 1, None, None, 1, None, 1, ("cuda:0",))
    status = PoolStatus(False, {"cuda:0": "ready", "cuda:1": "restarting"}, 1, (), 1, 3)
    metrics = Metrics()
    metrics.watch(cast(Any, SimpleNamespace(status=lambda: status, models=lambda: [info])))
    metrics.device_ended("cuda:1", died=True)
    result = {
        device: [value(metrics, f, device=device) for f in ("device_ready", "models_loaded", "device_deaths_total")]
        for device in ("cuda:0", "cuda:1")
    }
    assert result == {"cuda:0": [1, 1, 0], "cuda:1": [0, 0, 1]}
    assert value(metrics, "num_requests_running", model_name="demo", device="cuda:0") == 0
    assert (value(metrics, "num_inspections_running"), value(metrics, "num_inspections_waiting")) == (1, 3)
    metrics.scrape()  # a rate must see the first event, so there is a 0 before it
    assert value(metrics, "request_cancelled_total", model_name="demo", device="cuda:0", reason="disconnect") == 0


def test_models_go_by_the_name_that_clients_use() -> None:
    metrics = Metrics()
    RequestMetrics(metrics.by_model, "a@b@7@1", 4).sent("cpu")
    metrics.heartbeat("cpu", m.Heartbeat([lane("a@b@7@1")]))
    assert {model for model, _ in metrics.loaded()} == {"a@b@7"}
    assert [m.plain_name(key) for key in ("demo@12", "demo", "a@b@1", "a@b")] == ["demo", "demo", "a@b", "a@b"]


def test_both_formats_parse_and_follow_the_conventions() -> None:
    metrics = Metrics()
    a_request(metrics).answered(finished(1, 3, timing=m.Timing(0.1, 0.2, 0.3)))
    with pytest.raises(errors.EngineFailed), a_request(metrics):
        raise errors.EngineFailed("No.")
    metrics.heartbeat("cpu", m.Heartbeat([lane("demo@1", step_seconds=[0.1])]))
    metrics.refused(errors.UnknownModel("No."))
    metrics.http_series("/translate", "POST", "200").inc()
    text = generate_latest(metrics.registry).decode()
    families = list(parse(text))
    assert {f.name for f in families} == {
        f.name for f in parse_openmetrics(openmetrics.generate_latest(metrics.registry, openmetrics.ALLOWUTF8).decode())
    }
    lines = text.splitlines()
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert family.documentation, name
        assert sum(line.startswith(f"# HELP {name} ") for line in lines) == 1, name
        assert sum(line.startswith(f"# TYPE {name} ") for line in lines) == 1, name
        assert not family.name.endswith("_created"), name
        for sample in family.samples:
            if family.name.startswith("parlance:"):
                known = {"model_name", "device", "reason", "finished_reason", "route", "method", "status", "le"}
                assert sample.labels.keys() <= known, name
    assert len([f for f in families if f.name.startswith("parlance:")]) > 20


def test_apps_do_not_share_metrics() -> None:
    one, other = Metrics(), Metrics()
    a_request(one)
    assert value(one, "prompt_tokens_total", model_name="demo", device="cpu") == 4
    assert "model_name" not in generate_latest(other.registry).decode()
