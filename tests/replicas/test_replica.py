"""What Ray asks of one replica, with a scripted engine, and the configuration that the project ships."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray import cloudpickle
from ray.serve.schema import ServeDeploySchema

from app import ray_app
from app.engine.interface import PoolStatus
from app.errors import CheckpointRefused
from app.ray_app import Replica
from app.ray_proxy import ErrorsOfReplicas
from app.settings import Settings
from tests.readme import ROOT

pytestmark = pytest.mark.ray
UP = PoolStatus(ready=True, devices={"cpu": "ready"}, models=1, problems=())
DOWN = PoolStatus(ready=False, devices={"cpu": "restarting"}, models=1, problems=("cpu ended.",))


@dataclass
class ScriptedEngine:
    state: PoolStatus = UP
    loaded: list[str] = field(default_factory=lambda: ["a", "b"])
    changes: list[tuple[str, str]] = field(default_factory=list)
    failure: Exception | None = None

    def status(self) -> PoolStatus:
        return self.state

    def models(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in self.loaded]

    async def load_model(self, name: str) -> None:
        await self.change("load", name)
        self.loaded.append(name)

    async def reload_model(self, name: str) -> None:
        await self.change("reload", name)

    async def unload_model(self, name: str) -> None:
        await self.change("unload", name)
        self.loaded.remove(name)

    async def change(self, what: str, name: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.changes.append((what, name))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    scripted = ScriptedEngine()

    def service(settings: Settings) -> Any:
        assert not settings.model_changes  # through the API one replica alone would change
        return SimpleNamespace(state=SimpleNamespace(services=SimpleNamespace(engine=scripted)))

    monkeypatch.setattr(ray_app, "create_app", service)
    return scripted


@pytest.fixture
def replica(engine: ScriptedEngine) -> Replica:
    made = Replica()
    made.__serve_build_asgi_app__()
    return made


def test_health_waits_for_models_and_outlives_a_restart(
    replica: Replica, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(ray_app, "time", clock)
    now = 100.0

    async def session() -> None:
        nonlocal now
        engine.state = replace(DOWN, devices={"cpu": "starting"})
        waiting = asyncio.create_task(replica.check_health())
        await asyncio.sleep(0.2)
        assert not waiting.done()
        engine.state = UP
        await waiting
        engine.state = DOWN
        now = 129.0
        await replica.check_health()
        engine.state = UP
        await replica.check_health()
        engine.state = DOWN
        now = 158.0
        await replica.check_health()
        now = 160.0
        with pytest.raises(RuntimeError, match=r"No device process for 30 seconds\. cpu ended\."):
            await replica.check_health()

    asyncio.run(session())


def test_replica_without_a_model_says_why(replica: Replica, engine: ScriptedEngine) -> None:
    engine.state = PoolStatus(False, {"cpu": "stopped"}, 0, ("There is no checkpoint in checkpoints.",))
    with pytest.raises(RuntimeError, match="There is no checkpoint in checkpoints"):
        asyncio.run(replica.check_health())


def test_wrong_setting_is_the_reason_of_a_failed_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLANCE_BEAM_SIZE", "none")
    with pytest.raises(RuntimeError, match="PARLANCE_BEAM_SIZE"):
        Replica().__serve_build_asgi_app__()
    with pytest.raises(ValueError, match="PARLANCE_BEAM_SIZE"):
        ray_app.app({})


@pytest.mark.parametrize(
    ("configs", "changes"),
    [
        ([None], []),
        ([{"models": {"a": 7, "b": 3}}], []),
        ([{"models": {"a": 1}}], [("unload", "b")]),
        ([{"models": {"a": 1, "b": 1, "c": 1}}], [("load", "c")]),
        ([{"models": {"a": 1, "b": 1}}, {"models": {"a": 2, "b": 1}}], [("reload", "a")]),
        ([{"models": {"a": 1, "b": 1}}, {"models": {"b": 1, "c": 5}}], [("load", "c"), ("unload", "a")]),
        ([{"models": {"a": 1, "b": 1}}, None, {"models": {"a": 2, "b": 2}}], []),
    ],
)
def test_user_config(
    replica: Replica, engine: ScriptedEngine, configs: list[Any], changes: list[tuple[str, str]]
) -> None:
    async def session() -> None:
        for config in configs:
            await replica.reconfigure(config)

    asyncio.run(session())
    assert engine.changes == changes


def test_config_that_fails_is_tried_again(replica: Replica, engine: ScriptedEngine) -> None:
    async def session() -> None:
        await replica.reconfigure({"models": {"a": 1, "b": 1}})
        engine.failure = CheckpointRefused("a/model.safetensors does not match its checksum.")
        with pytest.raises(RuntimeError, match="does not match its checksum"):
            await replica.reconfigure({"models": {"a": 2, "b": 1}})
        engine.failure = None
        await replica.reconfigure({"models": {"a": 2, "b": 1}})

    asyncio.run(session())
    assert engine.changes == [("reload", "a")]


def test_misspelt_user_config_is_refused(replica: Replica) -> None:
    with pytest.raises(ValueError, match="model"):
        asyncio.run(replica.reconfigure({"model": {"a": 1}}))


@pytest.mark.parametrize(
    ("devices", "workers", "options"),
    [
        ("auto", "", {"num_cpus": 1, "num_gpus": 0}),
        ("cpu", "2", {"num_cpus": 2, "num_gpus": 0}),
        ("cuda:0,cuda:1", "", {"num_cpus": 1, "num_gpus": 2}),
        ("cuda:0,cpu", "3", {"num_cpus": 3, "num_gpus": 1}),
    ],
)
def test_resources_of_a_replica(
    monkeypatch: pytest.MonkeyPatch, devices: str, workers: str, options: dict[str, float]
) -> None:
    monkeypatch.setenv("PARLANCE_DEVICES", devices)
    monkeypatch.setenv("PARLANCE_CPU_WORKERS", workers)
    deployment = ray_app.app({"max_replicas": 3})._bound_deployment
    assert deployment.ray_actor_options == options
    assert deployment.max_ongoing_requests > Settings().max_inflight_requests  # our refusal comes before Ray's
    given = ray_app.app({"num_cpus": 4, "num_gpus": 0.5})._bound_deployment
    assert given.ray_actor_options == {"num_cpus": 4, "num_gpus": 0.5}


@dataclass
class Context:
    """What `app.ray_scaling` reads of Ray's AutoscalingContext."""

    current_num_replicas: int
    total_num_requests: float
    aggregated_metrics: dict[str, dict[str, float]] | None
    target_num_replicas: int = 1
    config: Any = None


@pytest.mark.parametrize(
    ("replicas", "requests", "sequences", "expected"),
    [
        (1, 3, {"a": 128}, 4),  # three pages of many texts
        (2, 3, {"a": 128, "b": 64}, 6),
        (2, 96, {"a": 5, "b": 5}, 3),  # probes, uploads, or requests that no replica has yet
        (3, 0, {"a": 0, "b": 0, "c": 0}, 0),
        (1, 64, None, 2),  # no replica has reported yet
        (0, 0, None, 1),
    ],
)
def test_replicas_follow_the_outstanding_sequences(
    monkeypatch: pytest.MonkeyPatch, replicas: int, requests: int, sequences: dict[str, float] | None, expected: float
) -> None:
    """The policy as Ray's controller unpacks it, where our packages are not installed."""
    config = ray_app.app({"max_replicas": 4, "target_ongoing_requests": 32})._bound_deployment._deployment_config
    packed = config.autoscaling_config.policy.get_serialized_policy_def()
    assert packed is not None
    for name in [name for name in sys.modules if name.partition(".")[0] == "app"]:
        monkeypatch.setitem(sys.modules, name, None)
    policy = cloudpickle.loads(packed)
    reported = None if sequences is None else {"outstanding_sequences": sequences}
    context = Context(replicas, requests, reported, config=config.autoscaling_config)
    assert policy(context)[0] == expected


def test_replica_reports_its_outstanding_sequences(replica: Replica, engine: ScriptedEngine) -> None:
    engine.state = replace(UP, outstanding=70)
    assert asyncio.run(replica.record_autoscaling_stats()) == {"outstanding_sequences": 70}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ["PARLANCE_DATA is data"]),
        ({"data": "/srv/data"}, []),
        ({"data": "/srv/data", "quota": "9/day"}, ["PARLANCE_REDIS_URL"]),
        ({"data": "/srv/data", "keys_file": "/srv/keys"}, ["PARLANCE_REDIS_URL"]),
        ({"data": "/srv/data", "keys_file": "/srv/keys", "redis_url": "redis://redis/0"}, []),
    ],
)
def test_settings_that_replicas_would_not_share_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, settings: dict[str, str], words: list[str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"PARLANCE_{name.upper()}", value)
    ray_app.app({"max_replicas": 1})
    assert not caplog.messages
    ray_app.app({"max_replicas": 2})
    assert len(caplog.messages) == len(words)
    assert all(word in message for word, message in zip(words, caplog.messages, strict=True))


def answered_by(messages: list[dict[str, Any]], path: str) -> tuple[int, dict[str, str], bytes]:
    """What a client gets where Ray's proxy sends these messages and then returns."""
    sent: list[Any] = []

    async def proxy(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "path": path, "headers": [(b"x-request-id", b"r1")]}
    asyncio.run(ErrorsOfReplicas(proxy)(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    assert not sent[-1].get("more_body", False)
    return sent[0]["status"], headers, b"".join(message["body"] for message in sent[1:])


def begun(status: int, kind: str) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]}


def part(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def test_request_of_a_replica_that_ended_is_503_in_the_form_of_its_protocol() -> None:
    status, headers, body = answered_by([], "/translate")
    assert (status, headers["retry-after"], headers["x-request-id"]) == (503, "1", "r1")
    sentence = "The server that had this request ended; send it again."
    assert json.loads(body) == {"error": sentence, "code": "engine_unavailable", "field": None, "request_id": "r1"}
    assert json.loads(answered_by([], "/v1/completions")[2])["error"]["message"] == sentence
    assert json.loads(answered_by([], "/v2/translate")[2]) == {"message": sentence}


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("/generate", b'event: error\ndata: {"error":"The server'),
        ("/v1/completions", b'data: {"error":{"message":"T'),
    ],
)
def test_stream_of_a_replica_that_ended_ends_with_an_error(path: str, end: bytes) -> None:
    token = b"event: token\ndata: {}\n\n"
    messages = [begun(200, "text/event-stream; charset=utf-8"), part(token, more=True)]
    status, _, body = answered_by(messages, path)
    assert (status, body.startswith(token + end), body.endswith(b"\n\n")) == (200, True, True)
    assert answered_by([*messages, part(b"", more=False)], path)[2] == token


@pytest.mark.parametrize(("rays", "ours"), [(503, 503), (429, 429), (408, 504)])
def test_refusals_of_ray_are_ours(rays: int, ours: int) -> None:
    status, headers, body = answered_by([begun(rays, "text/plain"), part(b"Deployment overloaded", more=False)], "/x")
    assert (status, headers["content-type"]) == (ours, "application/json")
    assert json.loads(body)["error"].endswith(".")


def test_answers_of_replicas_pass() -> None:
    for status, kind in ((200, "text/plain"), (503, "application/json"), (500, "application/json")):
        assert answered_by([begun(status, kind), part(b"x", more=False)], "/metrics")[::2] == (status, b"x")


def test_shipped_config_is_one_that_ray_and_the_service_take() -> None:
    config = ServeDeploySchema.model_validate(yaml.safe_load(Path(ROOT, "deploy/ray/serve_config.yaml").read_text()))
    (application,) = config.applications
    ray_app.Arguments.model_validate(application.args)
    (deployment,) = application.deployments
    assert deployment.name == ray_app.app({})._bound_deployment.name == "parlance"
    ray_app.UserConfig.model_validate(deployment.user_config)
    settings = application.runtime_env["env_vars"]
    assert {name.removeprefix("PARLANCE_").lower() for name in settings} <= Settings.model_fields.keys()
    assert config.http_options.request_timeout_s > Settings().request_timeout_s
