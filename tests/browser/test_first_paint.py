"""The measures of the first-paint benchmark; its times are not checked here."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.operations.web_pages import assets
from benchmarks.first_paint import load
from tests.serving import Server

pytestmark = pytest.mark.browser


def test_cold_load_fetches_every_file(chromium: Any, served: Server) -> None:
    first, second = (load(chromium, served.base) for _ in range(2))
    page = sum(len(asset.body) for asset in assets().values())
    for measured in (first, second):  # neither finds what the other has fetched
        assert measured["unpacked_bytes"] >= page - len(assets()["icon.svg"].body)
        assert measured["wire_bytes"] > page
        assert (
            0
            < measured["first_paint_ms"]
            <= measured["first_contentful_paint_ms"]
            <= measured["largest_contentful_paint_ms"]
        )
