"""deploy/prometheus and deploy/grafana: queries that parse, of metrics and labels that /metrics exposes."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse

from app.engine.metrics import Metrics
from app.engine.protocol import messages as m
from tests.app.api.client import Client
from tests.deploy.test_kubernetes import DEPLOYMENT, only

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/parlance.json").read_text("utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
CHARTS = [panel for panel in PANELS if panel["type"] != "row"]
SCRAPED = {"job", "instance", "namespace", "pod"}  # what Prometheus adds to every series


def read_yaml(name: str) -> Any:
    return yaml.safe_load((PROMETHEUS / name).read_text("utf-8"))


(GROUP,) = read_yaml("alerts.yaml")["groups"]
ALERTS: list[dict[str, Any]] = GROUP["rules"]


class Use(NamedTuple):
    """One selector of a query. matched: its labels; values: label -> the pattern that it has to match; grouped: the
    labels of the aggregations around all selectors of the query."""

    name: str
    matched: set[str]
    values: list[tuple[str, str, str]]
    grouped: set[str]


def uses(query: str) -> Iterator[Use]:
    """Every selector of a query; a query that Prometheus would refuse raises ValueError."""
    selectors: list[Any] = []
    grouped: set[str] = set()

    def visit(expression: Any) -> None:
        selector = expression.vector_selector if isinstance(expression, promql_parser.MatrixSelector) else expression
        if isinstance(selector, promql_parser.VectorSelector):
            selectors.append(selector)
        if isinstance(expression, promql_parser.AggregateExpr) and expression.modifier is not None:
            grouped.update(expression.modifier.labels)

    promql_parser.walk(promql_parser.parse(query), visit)
    assert selectors, query
    for selector in selectors:
        matchers = selector.matchers.matchers
        values = [(matcher.name, str(matcher.op), matcher.value) for matcher in matchers]
        yield Use(selector.name, {name for name, _, _ in values}, values, grouped)


@cache
def exposed() -> dict[str, dict[str, set[str]]]:
    """Series name -> label -> its values, of a service that has answered and refused a request."""
    client = Client()
    metrics: Metrics = client.app.state.services.metrics
    client.post("/translate", json={"q": "hallo", "source": "de", "target": "en"})
    load = m.ModelStatistics(model="demo-de-en", slots=8, rows=4, active=1, waiting=0, done=m.Tally())
    metrics.heartbeat("cpu", m.Heartbeat([load]))
    result: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for family in parse(client.get("/metrics").text):
        for sample in family.samples:
            labels = result[sample.name]
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    result["up"] = {}  # Prometheus' own, of each target
    return result


def check(query: str) -> None:
    """Every series of the query is exposed, has the labels that the query names, and values that it selects."""
    for use in uses(query):
        assert use.name in exposed(), f"/metrics has no {use.name}: {query}"
        labels = exposed()[use.name]
        assert use.matched <= SCRAPED | labels.keys(), f"{use.name} has the labels {sorted(labels)}: {query}"
        assert use.grouped <= SCRAPED | labels.keys(), f"{use.name} has the labels {sorted(labels)}: {query}"
        for label, _, pattern in use.values:
            if label == "reason":  # values of the others come with requests and models
                assert any(re.fullmatch(pattern, value) for value in labels[label]), f"no {label} is {pattern}"


def test_queries_of_unknown_metrics_and_labels_are_noticed() -> None:
    for wrong in (
        "rate(parlance:http_request_total[5m])",
        "sum by (model) (parlance:slots)",
        'parlance:device_ready{model_name="m"}',
        'parlance:request_refused_total{reason=~"overload"}',
    ):
        with pytest.raises(AssertionError):
            check(wrong)
    with pytest.raises(ValueError, match=r"unclosed|unexpected|expected"):
        check("sum by (job (parlance:slots)")


def test_alerts_ask_for_metrics_that_are_exposed() -> None:
    assert len({alert["alert"] for alert in ALERTS}) == len(ALERTS) >= 8
    for alert in ALERTS:
        check(alert["expr"])
        assert alert.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert alert["labels"]["severity"] in ("page", "ticket")
        assert alert["annotations"].keys() == {"summary", "description"}
        kept = set.union(*(use.grouped or SCRAPED | exposed()[use.name].keys() for use in uses(alert["expr"])))
        for text in alert["annotations"].values():
            assert set(re.findall(r"\$labels\.(\w+)", text)) <= kept


def test_unit_tests_of_alerts_name_alerts_and_metrics_that_exist() -> None:
    """promtool runs them; here their series are held to /metrics."""
    names = {alert["alert"] for alert in ALERTS}
    document = read_yaml("alerts_test.yaml")
    assert document["rule_files"] == ["alerts.yaml"]
    for case in document["tests"]:
        assert {expected["alertname"] for expected in case["alert_rule_test"]} <= names
        for series in case["input_series"]:
            check(series["series"])


def test_both_scrape_jobs_have_the_name_that_the_alerts_expect() -> None:
    jobs = [job for name in ("prometheus.yaml", "scrape_kubernetes.yaml") for job in read_yaml(name)["scrape_configs"]]
    selected = {value for alert in ALERTS for use in uses(alert["expr"]) for label, _, value in use.values
                if label == "job"}  # fmt: skip
    assert {job["job_name"] for job in jobs} == selected == {"parlance"}
    assert all((PROMETHEUS / name).exists() for name in read_yaml("prometheus.yaml")["rule_files"])
    keep = jobs[1]["relabel_configs"][0]
    template = DEPLOYMENT["spec"]["template"]
    name = template["metadata"]["labels"]["app.kubernetes.io/name"]
    assert keep["regex"] == f"{name};{template['spec']['containers'][0]['ports'][0]['name']}"
    assert {rule.get("target_label") for rule in jobs[1]["relabel_configs"][1:]} == {"namespace", "pod"}


def test_autoscaler_uses_the_metric_that_the_adapter_computes() -> None:
    (rule,) = read_yaml("prometheus_adapter.yaml")["rules"]["custom"]
    (metric,) = only("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]
    matchers = 'namespace="parlance",pod=~"a|b"'
    query = rule["metricsQuery"].replace("<<.LabelMatchers>>", matchers).replace("<<.GroupBy>>", "pod")
    assert "<<" not in query
    check(query)
    (selected,) = re.findall(r'__name__="([^"]+)"', rule["seriesQuery"])
    assert selected in {use.name for use in uses(query)}
    promql_parser.parse(rule["seriesQuery"])
    assert rule["resources"]["overrides"].keys() == {"namespace", "pod"}


def filled(query: str) -> str:
    """The query with Grafana's variables replaced, as Grafana does before it asks Prometheus."""
    query = query.replace("$__rate_interval", "1m")
    return re.sub(r"\$(\w+)", lambda match: {"job": "parlance", "instance": ".*", "model": ".*"}[match[1]], query)


@pytest.mark.parametrize("panel", CHARTS, ids=lambda panel: panel["title"])
def test_panels_ask_for_metrics_that_are_exposed(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for target in panel["targets"]:
        check(filled(target["expr"]))
        assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        grouped = set.union(*(use.grouped for use in uses(filled(target["expr"]))))
        if grouped:  # what a legend names is there after the aggregation
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= grouped


def test_dashboard_has_the_form_that_grafana_reads() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    assert {panel["type"] for panel in PANELS} <= {"row", "timeseries", "stat"}
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["uid"] and DASHBOARD["title"]
    assert "id" not in DASHBOARD  # that of one installation: an import would replace another dashboard
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        assert panel["title"] and (panel["type"] == "row" or (panel["description"] and panel["fieldConfig"]))
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert all(x < 24 for x, _ in cells) and not cells & taken, panel["title"]
        taken |= cells


def test_variables_of_the_dashboard_are_defined_and_have_values() -> None:
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert used == variables.keys()
    for variable in variables.values():
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
            (use,) = uses(filled(series))
            check(filled(series))
            assert label in SCRAPED | exposed()[use.name].keys()


def test_every_family_of_the_service_is_on_the_dashboard() -> None:
    left_out = {"slots", "slots_used"}  # kv_cache_usage_perc is their ratio
    shown = {use.name for panel in CHARTS for target in panel["targets"] for use in uses(filled(target["expr"]))}
    families = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in exposed() if name.startswith("parlance:")}
    on_it = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in shown}
    assert families - on_it == {f"parlance:{name}" for name in left_out}, (
        "show the metric in deploy/grafana/parlance.json, or leave it out by name here"
    )
