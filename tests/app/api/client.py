"""A client of the app in this process: real HTTP messages, no socket, and exceptions are not hidden as 500."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.routing import BaseRoute

from app.main import create_app
from app.settings import Settings
from app.translation import TextRequest
from tests.app.api.fake_engine import FakeEngine


class Client:
    """Calls the app as `client.post("/generate", json={...})`; `engine` is the fake behind it."""

    def __init__(self, engine: FakeEngine | None = None, **settings: Any) -> None:
        self.engine = engine or FakeEngine()
        self.app = create_app(Settings(**settings), self.engine)
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

        return asyncio.run(send())


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
