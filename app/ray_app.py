"""The service on Ray Serve. A replica is the whole service: the routes of `app.main` with an engine of its own, so that
a request crosses one process boundary more than without Ray, and not two. Needs the extra `ray`.

    serve run app.ray_app:app                             one replica
    serve run app.ray_app:app max_replicas=4              1 to 4, as much as is to do
    serve deploy deploy/ray/serve_config.yaml             with settings, models and replicas in one file

Replicas share what lies outside of them: keys (PARLANCE_KEYS_FILE), limits and quotas (PARLANCE_REDIS_URL), glossaries,
documents and translated files (PARLANCE_DATA, a folder that all nodes see). They read settings from PARLANCE_* of their
own environment, which on a running cluster is the `runtime_env` of the application."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.request_log import REQUEST_ID_HEADER
from app.errors import EngineError
from app.main import create_app
from app.ray_scaling import OUTSTANDING
from app.settings import Settings, load_settings

log = logging.getLogger(__name__)

# Ray refuses with a plain text where ours is a JSON with Retry-After: ours comes first. What is beyond the engine's own
# bound are requests that need no model, such as probes and the page.
_BEYOND_ENGINE = 256
# A device process that died is started again within seconds. A replica without any for this long is replaced.
_DOWN_S = 30.0
_POLL_S = 0.05


class Arguments(BaseModel):
    """What `serve run app.ray_app:app NAME=VALUE` and `args` of a serve config take.

    target_ongoing_requests: sequences in work or waiting in each replica that autoscaling aims at (a text of a batch is
    one, as for PARLANCE_MAX_INFLIGHT_REQUESTS), or HTTP requests where these are more.
    upscale_delay_s, downscale_delay_s: how long there has to be more or less work before a replica is started or ended.
    num_cpus, num_gpus: of each replica; by default what PARLANCE_CPU_WORKERS and PARLANCE_DEVICES name."""

    model_config = ConfigDict(extra="forbid")

    min_replicas: int = Field(default=1, ge=0)
    max_replicas: int = Field(default=1, ge=1)
    target_ongoing_requests: float = Field(default=32, gt=0)
    upscale_delay_s: float = Field(default=30, ge=0)
    downscale_delay_s: float = Field(default=600, ge=0)
    num_cpus: float | None = Field(default=None, ge=0)
    num_gpus: float | None = Field(default=None, ge=0)


class UserConfig(BaseModel):
    """The part of a deployment that changes without new replicas.

    models: revision of each model that is served, a number that you choose: another number reloads the folder, a new
    name loads one, a missing name unloads one. None: what PARLANCE_MODELS names."""

    model_config = ConfigDict(extra="forbid")

    models: dict[str, int] | None = None


class Replica:
    """`create_app` with settings from the environment. Ray calls the methods in the loop that answers requests."""

    def __serve_build_asgi_app__(self) -> ASGIApp:
        try:
            # the routes that change models would change one replica of several: `reconfigure` changes all
            settings = load_settings().model_copy(update={"model_changes": False})
            service = create_app(settings)
        except SystemExit as end:  # Ray reports exceptions, and only counts processes that ended
            raise RuntimeError(end.code) from None
        self._engine = service.state.services.engine
        self._start_s = 3 * settings.worker_start_timeout_s
        self._revisions: dict[str, int] | None = None
        self._ready_s: float | None = None
        return OneRequestId(service)

    async def check_health(self) -> None:
        """Returns once the models are loaded, and raises where no device process has come back for `_DOWN_S`: Ray then
        replaces the replica. A model that cannot be loaded beside others is told by /health/ready, and no reason."""
        if self._ready_s is None:
            await self._started()
        status = self._engine.status()
        now_s = time.monotonic()
        if any(state == "ready" for state in status.devices.values()):
            self._ready_s = now_s
        elif self._ready_s is not None and now_s - self._ready_s > _DOWN_S:
            raise RuntimeError(f"No device process for {_DOWN_S:.0f} seconds. {' '.join(status.problems)}")

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """For `app.ray_scaling`; Ray calls it every few seconds."""
        return {OUTSTANDING: float(self._engine.status().outstanding)}

    async def reconfigure(self, user_config: dict[str, Any] | None) -> None:
        """Serves the models of `UserConfig`; requests in flight end on the weights that they began with."""
        wanted = UserConfig.model_validate(user_config or {}).models
        await self._started()
        before, self._revisions = self._revisions or {}, wanted
        if wanted is None:
            return
        loaded = {model.name for model in self._engine.models()}
        try:
            for name, revision in wanted.items():
                if name not in loaded:
                    await self._engine.load_model(name)
                elif before.get(name, revision) != revision:
                    await self._engine.reload_model(name)
            for name in loaded - wanted.keys():
                await self._engine.unload_model(name)
        except EngineError as error:
            self._revisions = before  # the next configuration tries again
            raise RuntimeError(error.message) from None

    async def _started(self) -> None:
        """Raises RuntimeError with the reason where no model could be loaded."""
        deadline_s = time.monotonic() + self._start_s
        while not (status := self._engine.status()).ready:
            # Every device is idle where the folder holds no model that can be loaded
            if time.monotonic() > deadline_s or all(state == "stopped" for state in status.devices.values()):
                raise RuntimeError(" ".join(status.problems) or f"No model was loaded in {self._start_s:.0f} seconds.")
            await asyncio.sleep(_POLL_S)
        self._ready_s = time.monotonic()


class OneRequestId:
    """The service without its header of the request's id: Ray Serve adds the same id under the same name."""

    def __init__(self, service: ASGIApp) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without(message: Message) -> None:
            if message["type"] == "http.response.start":
                del MutableHeaders(scope=message)[REQUEST_ID_HEADER]
            await send(message)

        await self._service(scope, receive, send_without)


def app(given: dict[str, Any]) -> Any:
    """The application that `serve run` and a serve config build, with the fields of `Arguments`. ValueError for others,
    and for wrong settings."""
    arguments = Arguments.model_validate(given)
    try:
        settings = load_settings()
    except SystemExit as end:  # of a process of ours; this one is Ray's
        raise ValueError(end.code) from None
    if arguments.max_replicas > 1:
        for sentence in unshared(settings):
            log.warning("%s", sentence)
    cpus = _cpus(settings) if arguments.num_cpus is None else arguments.num_cpus
    gpus = settings.devices.count("cuda:") if arguments.num_gpus is None else arguments.num_gpus
    deployment: Any = serve.deployment(
        serve.ingress()(Replica),
        name="parlance",
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus},
        max_ongoing_requests=settings.max_inflight_requests + _BEYOND_ENGINE,
        graceful_shutdown_timeout_s=settings.drain_timeout_s + 5,
        health_check_period_s=5,
        logging_config={"enable_access_log": False},  # ours has a line of each request
        autoscaling_config={
            "min_replicas": arguments.min_replicas,
            "max_replicas": max(arguments.min_replicas, arguments.max_replicas),
            "target_ongoing_requests": arguments.target_ongoing_requests,
            "upscale_delay_s": arguments.upscale_delay_s,
            "downscale_delay_s": arguments.downscale_delay_s,
            "policy": {"policy_function": "app.ray_scaling:by_outstanding_work"},
        },
    )
    return deployment.bind()


def unshared(settings: Settings) -> list[str]:
    """What several replicas with these settings would not share, a sentence each."""
    sentences = []
    if not settings.redis_url.get_secret_value() and (settings.rate_limit or settings.quota or settings.keys_file):
        sentences.append(
            "Each replica counts rate limits and quotas for itself, so that clients get several times their share;"
            " give all of them one Redis, PARLANCE_REDIS_URL."
        )
    if not settings.data.is_absolute():
        sentences.append(
            f"PARLANCE_DATA is {settings.data}, a folder of each replica's own, so that glossaries and documents are"
            " known to one of them alone; name a folder that all nodes see, by its whole path."
        )
    return sentences


def _cpus(settings: Settings) -> int:
    """Of one replica: one for each device process on the CPU, and 1 where the settings leave their number open."""
    return max(1, settings.cpu_workers) if settings.devices == "auto" or "cpu" in settings.devices else 1
