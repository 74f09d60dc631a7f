"""*The Random Transformer* on the page: one click, and its published numbers stand on the cards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples import random_transformer
from tests.browser.chromium import Watched
from tests.serving import serving

pytestmark = pytest.mark.browser


def numbers(page: Any) -> list[list[float]]:
    rows = page.eval_on_selector_all(
        ".card tbody tr", "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    return [[float(cell.replace("−", "-").replace(",", "")) for cell in row] for row in rows]


def test_tutorial_shows_its_own_numbers(chromium: Any, tmp_path: Path) -> None:
    published = random_transformer.published()
    random_transformer.write(tmp_path / "checkpoints" / "random-transformer")
    head, heads = published["head1"], [published[name]["context_scaled_by_30"][0] for name in ("head1", "head2")]
    expected = {
        "sum": [published["x"][0]],
        "query": [head["Q"][0]],
        "keys": head["K"],
        "values": head["V"],
        "softmax": [head["weights_scaled_by_30"][0]],
        "context": [head["context_scaled_by_30"][0]],
        "heads concatenated": [[*heads[0], *heads[1]]],
        "output projection": [published["multi_head_output_scaled_by_30"][0]],
        "norm": [published["layer_norm_output"][0]],
    }
    with serving(tmp_path / "checkpoints", tmp_path) as server, Watched.opened(chromium, server.base) as watched:
        page = watched.goto("#walkthrough")
        page.select_option("#side", "encoder")
        page.click(".example >> text=hello world")
        page.wait_for_selector(".card h2")
        shown: dict[str, list[list[float]]] = {}
        for tab in page.query_selector_all("[role=tab]")[: 3 + 12]:
            tab.click()
            name = page.inner_text(".card h2")
            shown.setdefault(name, numbers(page))  # the feed-forward layer ends with a norm of its own
        for name, rows in expected.items():
            assert shown[name] == [pytest.approx(row, abs=6e-5) for row in rows], name
        watched.clean()
