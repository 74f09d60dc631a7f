"""The documentation page asks this server for everything and no other."""

from __future__ import annotations

import re

import pytest

from tests.app.api.client import Client


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
