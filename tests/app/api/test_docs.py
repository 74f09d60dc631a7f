"""The documentation page asks this server for everything and no other."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine


def test_documentation_loads_from_this_origin_only() -> None:
    page = Client().get("/docs")
    assert page.status_code == 200
    assert not re.findall(r"(?:https?:)?//[\w.]+\.\w+", page.text)
    rules = dict(rule.strip().split(" ", 1) for rule in page.headers["Content-Security-Policy"].split(";"))
    assert rules["default-src"] == rules["script-src"] == "'self'"
    assert "http" not in page.headers["Content-Security-Policy"]


def test_every_asset_is_there() -> None:
    client = Client()
    assets = re.findall(r'(?:src|href|data-openapi)="([^"]+)"', client.get("/docs").text)
    assert len(assets) == 5
    for asset in assets:
        assert client.get(asset).status_code == 200, asset


def test_old_address_leads_to_the_page() -> None:
    answer = Client().get("/redoc")
    assert (answer.status_code, answer.headers["location"]) == (307, "/docs")


@pytest.mark.parametrize("prefix", ["/parlance", '/"><script>'])
def test_behind_a_prefix_everything_has_the_prefix(prefix: str) -> None:
    client = Client()
    client.app.root_path = prefix
    shown = prefix.replace('"', "&quot;").replace(">", "&gt;").replace("<", "&lt;")
    page = client.get("/docs").text
    for asset in ("/docs-assets/swagger-ui-bundle.js", "/docs/docs.js", "/openapi.json"):
        assert f'"{shown}{asset}"' in page
    assert "<script>" not in page


def test_document_is_made_in_a_thread_and_once() -> None:
    """It takes a second, in which the event loop answers others."""
    client = Client()
    describe, threads = client.app.openapi, list[bool]()

    def openapi() -> dict[str, Any]:
        threads.append(threading.current_thread() is not threading.main_thread())
        return describe()

    client.app.openapi = openapi  # type: ignore[method-assign]
    first, second = client.get("/openapi.json"), client.get("/spec")  # LibreTranslate's path
    assert threads == [True]
    assert first.status_code == 200
    assert first.content == second.content


def test_routes_are_built_before_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a request for an unknown path would build those of all families, on the event loop."""
    app = create_app(Settings(), FakeEngine())

    async def run() -> list[int]:
        async with app.router.lifespan_context(app):
            monkeypatch.setattr("fastapi.routing._EffectiveRouteContext.from_api_route", None)  # would fail
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://parlance") as client:
                paths = "/nowhere", "/models", "/v1/models", "/v2/glossaries"
                return [(await client.get(path)).status_code for path in paths]

    assert asyncio.run(run()) == [404, 200, 200, 200]
