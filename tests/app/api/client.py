"""A client of the app in this process: real HTTP messages, no socket, and exceptions are not hidden as 500. Every JSON
answer is held to the OpenAPI document, which has to name each of its fields."""

from __future__ import annotations

import asyncio
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
from fastapi import FastAPI
from starlette.routing import BaseRoute

from app.main import create_app
from app.settings import PREFIX, Settings
from app.translation import TextRequest
from tests.app.api.fake_engine import FakeEngine

GOLDEN = Path(__file__).parents[2] / "golden" / "openapi.json"


class Client:
    """Calls the app as `client.post("/generate", json={...})`; `engine` is the fake behind it."""

    def __init__(self, engine: FakeEngine | None = None, **settings: Any) -> None:
        self.engine = engine or FakeEngine()
        self.app = create_app(Settings(**settings) if settings else default_settings(), self.engine)
        share_routes(self.app)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def post_raw(self, path: str, body: bytes, content_type: str = "application/json") -> httpx.Response:
        return self.request("POST", path, content=body, headers={"content-type": content_type})

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://parlance") as client:
                return await client.request(method, path, **options)

        answer = asyncio.run(send())
        check_documented(method, answer)
        return answer


def default_settings() -> Settings:
    """Settings of the environment alone, which most apps of these tests have: to read them takes as long as the rest
    of an app."""
    return _settings_in(frozenset(item for item in os.environ.items() if item[0].upper().startswith(PREFIX)))


@cache
def _settings_in(_environment: frozenset[tuple[str, str]]) -> Settings:
    return Settings()


_SHARED: dict[int, BaseRoute] = {}


def share_routes(app: FastAPI) -> None:
    """All apps of these tests include the same routers, and FastAPI makes an app's fields and handlers of a router with
    the first request that passes it: 0.3 s for all of them, in every app. So each app takes those of the first."""
    routes = app.router.routes
    for place, route in enumerate(routes):
        if (router := getattr(route, "original_router", None)) is not None:
            routes[place] = _SHARED.setdefault(id(router), route)


@cache
def described() -> dict[str, Any]:
    """The OpenAPI document of a server without keys; do not change it."""
    answer = Client().get("/openapi.json")
    assert answer.status_code == 200
    description: dict[str, Any] = answer.json()
    return description


@cache
def closed_document() -> dict[str, Any]:
    """The golden document, whose schemas refuse every field that they do not name. `test_openapi` holds the document to
    it; to make another one here would leave traces in the tests of logs."""
    document: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return document


@cache
def operation_of(method: str, path: str) -> tuple[str, dict[str, Any]] | None:
    """The documented path that leads to `path`, and what is said of it; None of addresses that are not documented."""
    paths = closed_document()["paths"]
    for documented in sorted(paths, key=lambda each: "{" in each):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", documented), path) and method.lower() in paths[documented]:
            return documented, paths[documented][method.lower()]
    return None


@cache
def _validator(method: str, documented: str, status: str) -> Any:
    content = closed_document()["paths"][documented][method.lower()]["responses"][status]["content"]
    return _compiled(json.dumps(content["application/json"]["schema"]))


@cache
def _compiled(schema: str) -> Any:
    """Many routes have the same answers, above all the same errors."""
    return jsonschema_rs.validator_for(json.loads(schema) | {"components": closed_document()["components"]})


CHECKED = set[str]()  # "POST /translate 200"


def check_documented(method: str, answer: httpx.Response) -> None:
    """Fails on a JSON answer that the document does not describe. Notes in `CHECKED` what it has held to it."""
    path = answer.url.path
    if path == "/openapi.json" or answer.headers.get("content-type") != "application/json":
        return
    if (found := operation_of(method, path)) is None:
        return
    documented, operation = found
    status = str(answer.status_code) if str(answer.status_code) in operation["responses"] else "default"
    problems = list(_validator(method, documented, status).iter_errors(answer.json()))
    assert not problems, f"{method} {documented} {status} sends what its schema refuses: {problems[0]}"
    CHECKED.add(f"{method} {documented} {status}")


class RecordedTranslator:
    """Notes the requests that it hands on."""

    def __init__(self, translator: Any) -> None:
        self.translator = translator
        self.requests: list[TextRequest] = []

    async def translate(self, requests: list[TextRequest]) -> Any:
        self.requests += requests
        return await self.translator.translate(requests)


def recorded(client: Client) -> RecordedTranslator:
    services = client.app.state.services
    spy = RecordedTranslator(services.translator)
    object.__setattr__(services, "translator", spy)
    return spy
