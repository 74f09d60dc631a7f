"""The room Lyrics: characters stream in, stop is heard, the seed writes the text again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Watched
from tests.browser.test_translate import needs
from tests.serving import Server, serving
from tests.tiny import write_lyricist

pytestmark = pytest.mark.browser


def test_a_text_is_written_and_its_seed_writes_it_again(watched: Watched, served: Server) -> None:
    page = watched.goto("#lyrics?length=30")
    page.fill("#prompt", "分开")
    page.click("#write")
    page.wait_for_selector("text=writes them again")
    seed = page.input_value("#seed")
    body = {"prompt": "分开", "max_new_tokens": 30, "temperature": 0.8, "top_k": 40, "seed": int(seed)}
    wanted = "分开" + served.ask("/generate", body)["text"]
    assert _written(page) == wanted
    watched.until(f"location.hash.includes('seed={seed}')")
    page.click("#write")
    page.wait_for_selector("text=writes them again")
    assert _written(page) == wanted


def test_characters_lie_on_their_probability(watched: Watched, served: Server, described: dict[str, Any]) -> None:
    needs("/gates" in described["paths"], "gates")
    page = watched.goto("#lyrics?prompt=%E5%88%86%E5%BC%80&length=12&seed=7")
    page.click("#write:not([disabled])")
    page.wait_for_selector(".character")
    page.hover(".character >> nth=3")
    text = _written(page)
    steps = served.ask("/gates", {"text": text, "top_k": 1})["steps"]
    said = page.inner_text(".lyrics ~ .reading")
    assert said.startswith("Character 5, ")
    assert f"rank {steps[4]['rank']}." in said
    assert page.locator(".strip figure").count() == 4  # r, z, n and the change of h
    assert page.locator("[role=grid]").get_attribute("aria-colcount") == str(len(text))
    cell = page.locator("[role=gridcell]")
    cell.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".strip figure >> nth=4")


def test_stop_is_heard_at_once(chromium: Any, tmp_path: Path) -> None:
    """On a model that takes its time: what was written stays, and the server ends the work."""
    write_lyricist(tmp_path / "checkpoints" / "slow-lyrics", hidden=2048)
    with serving(tmp_path / "checkpoints", tmp_path, STREAM_INTERVAL_MS="0", MAX_NEW_TOKENS="2000") as server:
        with Watched.opened(chromium, server.base) as watched:
            page = watched.goto("#lyrics?prompt=%E5%88%86&length=2000&seed=3")
            page.click("#write:not([disabled])")
            watched.until("document.getElementById('lyrics').textContent.length > 3")
            page.click("#write")
            page.wait_for_selector("text=Stopped after")
            written = _written(page)
            assert 3 < len(written) < 2000
            page.wait_for_timeout(300)
            assert _written(page) == written
            page.click("#write")  # and it can write again
            watched.until("document.getElementById('lyrics').textContent.length > 3")
            page.click("#write")
            page.wait_for_selector("text=Stopped after")
            watched.clean()
        end = time.monotonic() + 20
        while _running(server):
            assert time.monotonic() < end, "the server still writes for nobody"
            time.sleep(0.1)


def _written(page: Any) -> str:
    text: str = page.text_content("#lyrics")
    return text.replace("⏎", "")


def _running(server: Server) -> float:
    import urllib.request

    with urllib.request.urlopen(f"{server.base}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("parlance:num_requests_running{"))
