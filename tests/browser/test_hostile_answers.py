"""Whatever text the server says, in whatever room, is a text: names of models and languages, licences, cards, notices,
tokens, errors that quote a client's input, names of files and imports. A proxy puts markup behind every text of every
answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.chromium import Watched
from tests.browser.test_models import allowed
from tests.browser.test_notices import answer_with
from tests.serving import serving

pytestmark = pytest.mark.browser

MARKUP = '<img src=x onerror="window.hit=1"><svg onload=window.hit=1>\'"</script><script>window.hit=1</script>'
# What a program compares or decodes and never shows.
KEPT = {
    "kind",
    "state",
    "stage",
    "code",
    "encoding",
    "dtype",
    "data",
    "format",
    "status",
    "request_id",
    "language_pairs",
}
KEPT_IN = {"curves": {"name"}, "notices": {"kind", "code"}}
ELEMENTS = "main img, main script, main iframe, dialog img, dialog script, header img, [onerror], [onload]"


def hostile(answer: Any, inside: str = "") -> Any:
    """The answer with markup behind every text of a person's, a model's or the server's own."""
    if isinstance(answer, dict):
        return {
            name: value if name in KEPT or name in KEPT_IN.get(inside, ()) else hostile(value, name)
            for name, value in answer.items()
        }
    if isinstance(answer, list):
        return [hostile(value, inside) for value in answer]
    return f"{answer}{MARKUP}" if isinstance(answer, str) else answer


@pytest.fixture
def poisoned(watched: Watched) -> Iterator[Watched]:
    """The page behind the proxy, which takes the markup out of what the page then asks."""
    encoded, quoted = json.dumps(MARKUP)[1:-1], quote(MARKUP, safe="!'()*~-._")

    def pass_on(route: Any) -> None:
        sent, url = route.request.post_data, route.request.url.replace(quoted, "")
        answer = route.fetch(url=url, post_data=sent.replace(encoded, "") if sent else None)
        kind = answer.headers.get("content-type", "")
        if kind.startswith("application/json"):
            route.fulfill(response=answer, json=hostile(answer.json()))
        else:
            route.fulfill(response=answer)

    watched.page.route(lambda url: "/assets/" not in url and not url.endswith("/"), pass_on)
    yield watched
    assert watched.page.evaluate("window.hit") is None
    assert watched.page.locator(ELEMENTS).count() == 0


def shows(watched: Watched, selector: str = "body") -> None:
    """The markup is there to be read."""
    watched.until(
        f"[...document.querySelectorAll({json.dumps(selector)})].some(e => e.textContent.includes('<svg onload'))"
    )
    assert watched.page.evaluate("window.hit") is None
    assert watched.page.locator(ELEMENTS).count() == 0


def test_translation_and_its_inside(poisoned: Watched) -> None:
    page = poisoned.goto("#translate?pair=de.en")
    page.fill("#source", "der hund")
    shows(poisoned, ".token")
    for summary in page.locator("main summary:visible").all():
        summary.click()
    page.wait_for_timeout(1500)  # what opens asks for more
    shows(poisoned, "main")


def test_walkthrough(poisoned: Watched) -> None:
    poisoned.goto("#walkthrough?pair=de.en&text=der+hund")
    shows(poisoned, "main table, main figure, main li, main p")


def test_lyrics_and_their_gates(poisoned: Watched) -> None:
    page = poisoned.goto("#lyrics?length=12&seed=7")
    page.fill("#prompt", f"分开{MARKUP}")
    page.click("#write:not([disabled])")
    page.wait_for_selector(".strip figure")
    page.hover(".character >> nth=3")
    shows(poisoned, "main")


def test_models_and_their_curves(poisoned: Watched) -> None:
    page = poisoned.goto("#models")
    shows(poisoned, ".model h2")
    page.wait_for_selector(".training svg")
    shows(poisoned, ".model dd")
    shows(poisoned, ".training text")


def test_notice_of_a_newer_server(watched: Watched) -> None:
    """A code that the page has no sentence for: it shows the server's."""
    page = watched.goto("#translate?pair=de.en")
    notice = {"code": f"new{MARKUP}", "message": f"Mind this.{MARKUP}", "models": [MARKUP], "start": 0, "end": 3}
    answer_with(page, notice, text=f"the dog{MARKUP}")
    page.fill("#source", MARKUP)
    shows(watched, ".notices")


def test_import_and_its_errors(watched: Watched) -> None:
    """A name that people type, one that a repository has, and the sentence of an import that failed."""
    watched.page.route("**/frontend/settings", allowed)
    page = watched.goto("#models")
    watched.refused |= {403, 404, 422}
    one = {"id": 1, "model": MARKUP, "name": MARKUP, "stage": "download", "bytes": 1, "total": 3, "seconds": 1.0}
    one |= {"state": "failed", "seconds_left": None, "error": f"It failed.{MARKUP}", "note": f"Note.{MARKUP}"}
    page.route("**/models/imports", lambda route: route.fulfill(json=[one]))
    page.route("**/models/import?*", lambda route: route.fulfill(status=202, json=one))
    page.fill("#hub", "de-en")
    page.press("#hub", "Enter")
    shows(watched, ".import.failed")
    page.unroute("**/models/import?*")
    page.fill("#hub", MARKUP)
    page.press("#hub", "Enter")  # the server's own answer: it has no admin key
    page.wait_for_selector(".importing > .problem:not(:empty)")
    page.fill("#folder", MARKUP)
    page.click("button >> text=/^Load$/")
    page.wait_for_timeout(500)
    assert page.evaluate("window.hit") is None
    assert page.locator(ELEMENTS).count() == 0


def test_names_and_contents_of_files(watched: Watched) -> None:
    """Of a type that is refused, of one that is translated, and of one that cannot be read."""
    page = watched.goto("#translate?pair=de.en")
    watched.refused |= {400, 422}
    name = '<img src=x onerror="window.hit=1"><svg onload=window.hit=1>'
    files = [(f"{name}.xyz", b"x"), (f"{name}.txt", f"der hund {MARKUP}".encode()), (f"{name}.docx", b"PK no zip")]
    page.set_input_files(
        "input[type=file]",
        [{"name": name, "mimeType": "application/octet-stream", "buffer": content} for name, content in files],
    )
    page.wait_for_selector(".uploads .problem")
    shows(watched, ".uploads li")


def test_folder_card_and_broken_folder_of_a_stranger(chromium: Any, tiny_checkpoints: Path, tmp_path: Path) -> None:
    """Not the proxy's markup but the server's: what a checkpoint from elsewhere can be called and say."""
    name = '<img src=x onerror="window.hit=1"><svg onload=window.hit=1>'
    checkpoints = tmp_path / "checkpoints"
    shutil.copytree(tiny_checkpoints / "tiny-de-en", checkpoints / name)
    (checkpoints / name / "README.md").write_text(f"---\nlicense: {json.dumps(MARKUP)}\n---\n{MARKUP}\n")
    (checkpoints / f"broken{name}").mkdir()
    (checkpoints / f"broken{name}" / "config.json").write_text(f'{{"{name}": 1')
    key = "a-key-of-the-tests-long-enough"
    with (
        serving(checkpoints, tmp_path, ADMIN_KEY=key) as server,
        Watched.opened(chromium, server.base) as watched,
    ):
        assert [model["name"] for model in server.ask("/models")] == [name]
        assert any(name in problem for problem in server.ask("/health/ready")["problems"])
        watched.refused |= {404, 409, 422}
        page = watched.goto("#models")
        shows(watched, ".model h2")
        shows(watched, ".model dd")
        page.fill("#key", key)
        page.press("#key", "Enter")
        for folder in (f"broken{name}", f"nothing{name}", name):
            page.fill("#folder", folder)
            page.click("button >> text=/^Load$/")
            shows(watched, ".problem")
        page = watched.translated("der hund")
        assert page.evaluate("window.hit") is None
        assert page.locator(ELEMENTS).count() == 0
        watched.clean()
