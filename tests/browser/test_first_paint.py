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
    for each in (first, second):  # neither finds what the other has fetched
        assert each["unpacked_bytes"] >= page - len(assets()["icon.svg"].body)
        assert each["wire_bytes"] > page
        assert 0 < each["first_paint_ms"] <= each["first_contentful_paint_ms"] <= each["largest_contentful_paint_ms"]
