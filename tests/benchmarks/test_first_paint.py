"""What is measured of loads; how long they take is nobody's promise here."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.api.page import assets
from benchmarks.first_paint import goals, load, summary
from tests.browser.chromium import browser, executable
from tests.serving import serving


def a_load(first_ms: float) -> dict[str, float]:
    times = {"first_paint_ms": first_ms, "first_contentful_paint_ms": first_ms + 10, "loaded_ms": first_ms + 20}
    times["largest_contentful_paint_ms"] = first_ms + 30
    return {**times, "requests": 60, "wire_bytes": 150_000, "unpacked_bytes": 140_000}


def test_the_goals_are_of_the_median_and_the_worst() -> None:
    row = summary([a_load(100.0), a_load(1500.0), a_load(300.0)])
    assert (row["cold_loads"], row["requests"], row["wire_bytes"]) == (3, 60, 150_000)
    assert (row["first_paint_ms_median"], row["loaded_ms_worst"]) == (300.0, 1520.0)
    assert row["page_bytes"] == sum(len(each.body) for each in assets().values())
    assert [(each["value"], each["met"]) for each in goals(row)] == [(310.0, True), (1510.0, False)]


@pytest.mark.browser
def test_a_cold_load_fetches_every_file_of_the_page(
    tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if executable() is None:
        pytest.fail("this test needs a browser, and there is none here: apt-get install chromium")
    with serving(tiny_checkpoints, tmp_path_factory.mktemp("served")) as server, browser() as launched:
        first, second = (load(launched, server.base) for _ in range(2))
    page = sum(len(each.body) for each in assets().values())
    for each in (first, second):  # neither finds what the other has fetched
        assert each["unpacked_bytes"] >= page - len(assets()["icon.svg"].body)
        assert each["wire_bytes"] > page
        assert 0 < each["first_paint_ms"] <= each["first_contentful_paint_ms"] <= each["largest_contentful_paint_ms"]
