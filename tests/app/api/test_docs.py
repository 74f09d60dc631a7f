"""The documentation pages ask this server for everything and no other."""

from __future__ import annotations

import re

import pytest

from tests.app.api.client import Client

PAGES = ["/docs", "/redoc"]


@pytest.mark.parametrize("path", PAGES)
def test_documentation_loads_from_this_origin_only(path: str) -> None:
    page = Client().get(path)
    assert page.status_code == 200
    assert not re.findall(r"(?:https?:)?//[\w.]+\.\w+", page.text)
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert "http" not in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", PAGES)
def test_every_asset_is_there(path: str) -> None:
    client = Client()
    assets = re.findall(r'(?:src|href|spec-url)="([^"]+)"', client.get(path).text)
    assert len(assets) == 3
    for asset in assets:
        assert client.get(asset).status_code == 200, asset


def test_swagger_reads_our_description_and_asks_no_validator() -> None:
    page = Client().get("/docs").text
    assert "url: '/openapi.json'" in page
    assert '"validatorUrl": null' in page


def test_behind_a_prefix_everything_has_the_prefix() -> None:
    client = Client()
    client.app.root_path = "/parlance"
    assert 'src="/parlance/docs-assets/swagger-ui-bundle.js"' in client.get("/docs").text
