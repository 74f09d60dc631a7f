"""The room Lyrics: characters stream in, stop is heard, the seed writes the text again."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Watched
from tests.browser.test_translate import needs
from tests.serving import Server, serving
from tests.tiny import write_lyricist

pytestmark = pytest.mark.browser


def test_seed_reproduces_the_text(watched: Watched, served: Server) -> None:
    page = watched.goto("#lyrics?length=30")
    page.fill("#prompt", "分开")
    page.click("#write")
    page.wait_for_selector("text=writes them again")
    seed = page.input_value("#seed")
    body = {"prompt": "分开", "max_new_tokens": 30, "temperature": 0.8, "top_k": 40, "seed": int(seed)}
    expected = "分开" + served.ask("/generate", body)["text"]
    assert _written(page) == expected
    watched.until(f"location.hash.includes('seed={seed}')")
    page.click("#write")
    page.wait_for_selector("text=writes them again")
    assert _written(page) == expected


def test_characters_are_shaded_by_probability(watched: Watched, served: Server, described: dict[str, Any]) -> None:
    needs("/gates" in described["paths"], "gates")
    page = watched.goto("#lyrics?prompt=%E5%88%86%E5%BC%80&length=12&seed=7")
    page.click("#write:not([disabled])")
    page.wait_for_selector(".strip figure")  # the gates have come
    page.hover(".character >> nth=3")
    text = _written(page)
    steps = served.ask("/gates", {"text": text, "top_k": 1})["steps"]
    reading = page.inner_text(".lyrics ~ .reading")
    assert reading.startswith("Character 5, ")
    assert f"rank {steps[4]['rank']}." in reading
    assert page.locator(".strip figure").count() == 4  # r, z, n and the change of h
    assert page.locator("[role=grid]").get_attribute("aria-colcount") == str(len(text))
    cell = page.locator("[role=gridcell]")
    cell.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".strip figure >> nth=4")


def test_gates_are_drawn_between_the_bounds_that_the_server_names(watched: Watched, described: dict[str, Any]) -> None:
    """Also those of a cell that the page has never heard of."""
    needs("/gates" in described["paths"], "gates")

    def another_cell(route: Any) -> None:
        answer = route.fetch().json()
        answer["model"]["bounds"] = {"u": [0, 3], "h": [-1, 1]}
        answer["gates"] = {"u": answer["gates"]["z"], "h": answer["gates"]["h"]}
        for summary in answer["summaries"]:
            summary["mean"] = {"u": summary["mean"]["z"], "h": summary["mean"]["h"]}
        route.fulfill(json=answer)

    watched.page.route("**/gates", another_cell)
    page = watched.goto("#lyrics?prompt=%E5%88%86%E5%BC%80&length=12&seed=7")
    page.click("#write:not([disabled])")
    page.wait_for_selector(".strip figure")
    captions = page.locator(".strip figcaption").all_inner_texts()
    assert captions[0] == "mean of u: 0.00 to 3.00"
    assert len(captions) == 2


def test_gates_have_names_and_the_ranges_of_the_answer(watched: Watched, described: dict[str, Any]) -> None:
    needs("/gates" in described["paths"], "gates")
    page = watched.goto("#lyrics?prompt=%E5%88%86%E5%BC%80&length=12&seed=7")
    page.click("#write:not([disabled])")
    page.wait_for_selector(".strip figure")
    assert page.locator("#gate option").all_inner_texts() == [
        "reset gate r (0 to 1)",
        "update gate z (0 to 1)",
        "new state n (−1 to 1)",
        "hidden state h (−1 to 1)",
    ]
    assert "mean of update gate z: 0.00 to 1.00" in page.locator(".strip figcaption").all_inner_texts()
    page.select_option("#gate", "z")
    assert "update gate z" in page.inner_text(".panel:has(#gate) .legend")


# What the page hears, kept beside it.
LISTENING = """
window.heard = "";
const asked = window.fetch;
const keep = async (body) => {
  for await (const part of body.pipeThrough(new TextDecoderStream())) window.heard += part;
};
window.fetch = async (address, options) => {
  const answer = await asked(address, options);
  if (!String(address).endsWith("generate")) return answer;
  const [ours, theirs] = answer.body.tee();
  keep(ours).catch(() => 0);
  return new Response(theirs, { status: answer.status, headers: answer.headers });
};
"""
WRITTEN = """() => [...document.querySelectorAll("#lyrics [data-at]")].map(
  (each) => [each.textContent.replace("⏎", ""), getComputedStyle(each).backgroundColor])"""
HEARD = """async (count) => {
  const { heat } = await import(document.baseURI.split("#")[0] + "assets/drawing/colour.js");
  const probe = document.body.appendChild(document.createElement("i"));
  const ground = (logprob) => {
    probe.style.background = heat(Math.exp(logprob));
    return getComputedStyle(probe).backgroundColor;
  };
  const tokens = () => window.heard.split("\\n\\n").slice(0, -1).filter((each) => each.startsWith("event: token"))
    .flatMap((each) => JSON.parse(each.split("data: ")[1]).tokens);
  for (let i = 0; i < 500 && tokens().length < count; i += 1) await new Promise((done) => setTimeout(done, 10));
  return tokens().slice(0, count).map(({ text, logprob }) => [text, ground(logprob)]);
}"""


def test_characters_are_shaded_while_the_text_is_streamed(chromium: Any, tmp_path: Path) -> None:
    """That of the probability which came with it, on a model that takes its time; and the gates say the same of it."""
    write_lyricist(tmp_path / "checkpoints" / "slow-lyrics", hidden=2048)
    limits = {"STREAM_INTERVAL_MS": "0", "MAX_NEW_TOKENS": "2000"}
    with (
        serving(tmp_path / "checkpoints", tmp_path, **limits) as server,
        Watched.opened(chromium, server.base) as watched,
    ):
        watched.page.add_init_script(LISTENING)
        page = watched.goto("#lyrics?prompt=%E5%88%86&length=2000&seed=3&topK=0&temperature=1")
        page.click("#write:not([disabled])")
        watched.until("document.querySelectorAll('.character').length > 12")
        written = page.evaluate(WRITTEN)
        assert page.inner_text("#write") == "Stop", "it is still being written"
        assert page.locator(".strip figure").count() == 0, "nobody has asked for gates"
        assert written == page.evaluate(HEARD, len(written))
        assert len({colour for _, colour in written}) > 1
        page.click("#write")
        page.wait_for_selector(".strip figure")
        later = page.evaluate(WRITTEN)
        assert len(later) >= len(written) > 12
        for (text, drawn), (again, looked_up) in zip(written, later, strict=False):
            assert text == again
            assert all(abs(a - b) <= 3 for a, b in zip(_rgb(drawn), _rgb(looked_up), strict=True))
        watched.clean()


def _rgb(colour: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", colour)]


def test_stop_button_ends_the_stream(chromium: Any, tmp_path: Path) -> None:
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
