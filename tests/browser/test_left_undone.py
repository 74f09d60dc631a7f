"""What the page shows when something fails or changes on the way: nothing that was said or shown is lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Watched
from tests.serving import Server, serving
from tests.tiny import write_lyricist

pytestmark = pytest.mark.browser


def test_interrupted_text_is_marked_beside_its_gates(watched: Watched) -> None:
    token = {"text": "开", "tokens": [{"id": 5, "text": "开", "logprob": -0.5}]}
    error = {"error": "The device process ended; please try again.", "code": "engine_unavailable", "field": None}
    body = f"event: token\ndata: {json.dumps(token)}\n\nevent: error\ndata: {json.dumps(error)}\n\n"
    watched.page.route("**/generate", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page = watched.goto("#lyrics?prompt=%E5%88%86&length=20")
    page.click("#write:not([disabled])")
    page.wait_for_selector(".strip figure")  # the gates of what there is
    assert page.text_content("#lyrics") == "分开"
    assert "The device process ended" in page.inner_text(".problem >> visible=true")


def test_cards_stay_in_place_after_unloading(watched: Watched, served: Server) -> None:
    watched.refused.add(404)
    gone = {"status": 404, "json": {"error": "No model tiny-en-de is loaded.", "code": "unknown_model"}}
    first, second, *_ = [model["name"] for model in served.ask("/models")]
    watched.page.route(f"**/models/{second}/curves", lambda route: route.fulfill(**gone))
    page = watched.goto("#models")
    page.wait_for_selector(".training svg")
    assert page.locator(".model h2").all_inner_texts()[:2] == [first, second]


def test_times_are_in_the_language_of_the_page(watched: Watched, served: Server) -> None:
    page = watched.goto("#models")
    page.wait_for_selector(".training svg")
    page.click("#language")
    expected = page.evaluate(f"new Date('{served.ask('/models')[0]['loaded_at']}').toLocaleString('zh-Hans')")
    assert expected in page.locator(".model").first.inner_text()


def test_changing_room_or_language_keeps_one_text(chromium: Any, tmp_path: Path) -> None:
    """The device process rests while the page is elsewhere: on a busy machine the whole text would be there before."""
    write_lyricist(tmp_path / "checkpoints" / "slow-lyrics", hidden=2560)
    settings = {"STREAM_INTERVAL_MS": "0", "MAX_NEW_TOKENS": "2000", "WORKER_HANG_TIMEOUT_S": "600"}
    count = "document.querySelectorAll('#lyrics [data-at]').length"
    with (
        serving(tmp_path / "checkpoints", tmp_path, **settings) as server,
        Watched.opened(chromium, server.base) as watched,
    ):
        page = watched.goto("#lyrics?prompt=%E5%88%86&length=2000&seed=3&topK=0&temperature=1")
        for _ in range(2):  # the second one while the first one's gates are looked for
            page.click("#write:not([disabled])")
            watched.until(f"{count} > 5")
            (worker,) = server.workers()
            os.kill(worker, signal.SIGSTOP)
            page.click("#language")
            page.click("#rooms a[data-room=models]")
            page.wait_for_selector(".model")
            page.click("#rooms a[data-room=lyrics]")
            before = page.evaluate(count)
            os.kill(worker, signal.SIGCONT)
            watched.until(f"{count} > {before}")
            page.click("#write")
            watched.until("document.getElementById('write').textContent.match(/Write|写/)")
        page.wait_for_selector(".strip figure")
        text = page.text_content("#lyrics").replace("⏎", "")
        assert page.locator("#lyrics [data-at]").count() == len(text) - 1
        texts = [body["text"] for path, body in watched.sent_requests if path == "/gates"]
        assert texts[-1] == text
        assert page.locator("#lyrics .character").count() == len(text) - 1
        watched.clean()
