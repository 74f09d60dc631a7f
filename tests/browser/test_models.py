"""The Models room: what a card says and draws is what the API answers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.app.api.keyed_client import ADMIN, USE, keys_file
from tests.browser.chromium import SETTLED, Watched
from tests.serving import Server, serving
from tests.stand_in_hub import stand_in_hub
from tests.training.importers.marian import folders

pytestmark = pytest.mark.browser

PATHS = "[...document.querySelector('.training').querySelectorAll('path[class]')]"
DRAWN = f"{PATHS}.map(e => [e.className.baseVal, e.getAttribute('d')])"
TEXTS = "[...document.querySelector('.training').querySelectorAll('text')].map(e => e.textContent)"


def curves_of(served: Server) -> dict[str, Any]:
    return {curve["name"]: curve for curve in served.ask("/models/tiny-de-en/curves")["curves"]}


def points(d: str, end: int, low: float, high: float) -> list[tuple[int, float]]:
    """Updates and values of a path, by the picture's own scale: 320 wide, 90 high, its foot at 108."""
    results = [(float(x), float(y)) for x, y in re.findall(r"[ML](\S+) ([^h]+)h0", d)]
    return [(round(x * end / 320), low + (108 - y) / 90 * (high - low)) for x, y in results]


def test_drawn_curves_equal_the_api(watched: Watched, served: Server) -> None:
    page = watched.goto("#models")
    page.wait_for_selector(".training svg")
    given, drawn = curves_of(served), dict(page.evaluate(DRAWN))
    assert list(drawn) == ["loss", "valid_loss", "valid_bleu"]  # and no learning rate
    for names in (("loss", "valid_loss"), ("valid_bleu",)):  # one axis for a unit
        numbers = [value for name in names for value in given[name]["values"] if value is not None]
        low, high = min(numbers), max(numbers)
        for name in names:
            pairs = zip(given[name]["updates"], given[name]["values"], strict=True)
            expected = [(update, value) for update, value in pairs if value is not None]
            results = points(drawn[name], 250, low, high)
            assert [update for update, _ in results] == [update for update, _ in expected]
            close = (high - low) * 0.06 / 90  # places have one decimal
            assert [value for _, value in results] == pytest.approx([value for _, value in expected], abs=close)
    assert given["loss"]["values"] == [5.14067, 2.25, None, 0.75, 0.0625]
    assert [drawn[name].count("M") for name in drawn] == [2, 1, 1]  # the NaN is a gap


def test_model_is_loaded_reloaded_and_unloaded_with_the_key(
    chromium: Any, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_checkpoints / "tiny-de-en", tmp_path / "checkpoints" / "one")
    key = "a-key-of-the-tests-long-enough"
    with (
        serving(tmp_path / "checkpoints", tmp_path, ADMIN_KEY=key) as server,
        Watched.opened(chromium, server.base) as watched,
    ):
        page = watched.goto("#models")
        page.wait_for_selector(".model h2 >> text=one")
        shutil.copytree(tmp_path / "checkpoints" / "one", tmp_path / "checkpoints" / "another")
        page.fill("#key", key)
        page.press("#key", "Enter")
        page.fill("#folder", "another")
        page.click("button >> text=/^Load$/")
        second = page.locator(".model:has(h2:text-is('another'))")
        second.wait_for()
        with page.expect_response("**/models/another/reload") as answer:
            second.get_by_text("Reload").click()
        assert answer.value.json()["model"]["version"] == 2
        second.get_by_text("Unload").click()
        second.wait_for(state="detached")
        assert [model["name"] for model in server.ask("/models")] == ["one"]
        watched.refused.add(404)
        page.fill("#folder", "three")
        page.click("button >> text=/^Load$/")
        page.wait_for_selector(".problem:has-text('three')")
        watched.clean()


def test_model_is_imported_from_the_hub(
    chromium: Any, tiny_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_checkpoints / "tiny-de-en", tmp_path / "checkpoints" / "one")
    key = "a-key-of-the-tests-long-enough"
    with stand_in_hub() as hub:
        hub.add("Helsinki-NLP/opus-mt-de-es", folders.write(tmp_path / "original", pair=("de", "es")))
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-cache"))
        with (
            serving(tmp_path / "checkpoints", tmp_path, ADMIN_KEY=key) as server,
            Watched.opened(chromium, server.base) as watched,
        ):
            page = watched.goto("#models")
            page.wait_for_selector(".model h2 >> text=one")
            page.fill("#key", key)
            page.press("#key", "Enter")
            page.fill("#hub", "de-es")
            page.click("button >> text=/^Import$/")
            page.wait_for_selector(".import.running progress")
            page.wait_for_selector(".model h2 >> text=opus-mt-de-es")
            assert page.locator(".import").inner_text().startswith("de-es: ready")
            assert server.ask("/translate", {"q": "hallo", "source": "de", "target": "es"})["translatedText"]
            page.fill("#hub", "de-xx")
            page.press("#hub", "Enter")
            page.wait_for_selector(".import.failed .problem:has-text('The hub has no OPUS-MT model for de → xx')")
            watched.refused.add(422)
            page.fill("#hub", "nonsense")
            page.press("#hub", "Enter")
            page.wait_for_selector(".importing > .problem:has-text('no name of a model on the hub')")
            page.click("#language")
            page.wait_for_selector(".import.failed >> text=de-xx: 未导入")
            watched.clean()


def allowed(route: Any) -> None:
    """The settings for somebody who may change models."""
    route.fulfill(json={**route.fetch().json(), "modelChanges": "allowed"})


def test_import_is_followed_through_a_failure_and_keeps_another_ones_sentence(watched: Watched) -> None:
    """One import runs, a second is refused, and the server cannot be asked once."""
    one = {"id": 1, "model": "de-en", "stage": "fetching", "bytes": 10**6, "total": 3 * 10**8, "seconds": 1.0}
    asked = 0

    def imports(route: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            route.fulfill(status=503, json={"error": "It is starting; try again.", "code": "x"})
        else:
            state = "done" if asked > 5 else "running"
            route.fulfill(json=[{**one, "state": state, "seconds_left": 9.0, "error": None, "note": None}])

    watched.page.route("**/frontend/settings", allowed)
    page = watched.goto("#models")
    watched.refused.update({422, 503})
    refusal = {"error": "That is no name.", "code": "x"}
    page.route("**/models/imports", imports)
    page.route("**/models/import?model=de-en", lambda route: route.fulfill(status=202, json=one))
    page.route("**/models/import?model=x", lambda route: route.fulfill(status=422, json=refusal))
    page.fill("#hub", "de-en")
    page.press("#hub", "Enter")
    page.wait_for_selector(".import.running")
    page.fill("#hub", "x")
    page.press("#hub", "Enter")
    sentence = page.locator(".importing > .problem")
    page.wait_for_selector(".importing > .problem:has-text('That is no name.')")
    page.wait_for_selector(".importing > .problem:has-text('It is starting')")
    page.wait_for_selector(".import.done")
    assert sentence.inner_text() == ""
    page.click("button >> text=/^Load$/")  # of no folder
    assert page.evaluate("document.activeElement.id") == "folder"
    assert "/models//load" not in [path for path, _ in watched.sent_requests]


def test_axes_have_names_numbers_and_units(watched: Watched) -> None:
    page = watched.goto("#models")
    page.wait_for_selector(".training svg")
    expected = ["0", "250 updates", "5.14 nats per token", "0.0625", "38.5 BLEU", "1.25"]
    assert page.evaluate(TEXTS) == expected
    assert page.locator(".training >> nth=0 >> p").all_inner_texts() == [
        "─ training loss: 5.14 → 0.0625",
        "╌ held-out loss: 4.75 → 1.5",
        "╌ held-out BLEU: 1.25 → 38.5",
    ]
    page.click("#language")
    assert page.evaluate(TEXTS)[1] == "250 次更新"


def test_card_shows_precision_time_and_why_there_is_no_curve(watched: Watched, served: Server) -> None:
    page = watched.goto("#models")
    page.wait_for_selector(".training svg")
    first, *_, last = served.ask("/models")
    cards = page.locator(".model").all_inner_texts()
    assert f"precision\n{first['precision']}" in cards[0]
    assert first["loaded_at"][:4] in cards[0].split("loaded")[1]
    assert "licence" not in cards[0]  # no card says one
    assert served.ask(f"/models/{last['name']}/curves")["reason"] in cards[-1]
    assert page.locator(".training").count() == 1


ACTIONS = "Reload", "Unload", "Load", "Import"


def offered(page: Any) -> set[str]:
    page.wait_for_selector(".model h2")
    page.wait_for_load_state("networkidle")
    return {name for name in ACTIONS if page.locator(f"button:visible >> text=/^{name}$/").count()}


def test_models_are_changed_only_where_the_server_has_an_admin_key(watched: Watched) -> None:
    page = watched.goto("#models")
    assert offered(page) == set()
    assert not page.is_visible("#key")


def test_changes_are_offered_once_the_key_is_an_admin_key(
    chromium: Any, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    folder = keys_file(tmp_path)
    with serving(tiny_checkpoints, tmp_path, KEYS_FILE=str(folder)) as server:
        for key, actions in ((USE, set()), (ADMIN, set(ACTIONS))):
            with Watched.opened(chromium, server.base, kept={**SETTLED, "key": key}) as watched:
                page = watched.goto("#models")
                assert offered(page) == actions
                if key == USE:
                    page.fill("#key", USE)
                    page.press("#key", "Enter")
                    page.wait_for_selector(".problem:has-text('for no admin key')")
                    assert offered(page) == set()
                    page.fill("#key", ADMIN)
                    page.press("#key", "Enter")
                    page.wait_for_selector("button:visible >> text=/^Load$/")
                    assert offered(page) == set(ACTIONS)
                watched.clean()


@pytest.mark.parametrize(
    ("orders", "reason"),
    [
        (("named", "named"), "the first that the server was started with"),
        (("name", "name"), "the first by name"),
        (("name", "demo"), "the others come with Parlance"),
    ],
)
def test_page_says_which_of_two_models_answers_and_why(watched: Watched, orders: tuple[str, str], reason: str) -> None:
    def twice(route: Any) -> None:
        first, *others = route.fetch().json()
        route.fulfill(json=[{**first, "order": orders[0]}, {**first, "name": "z-de-en", "order": orders[1]}, *others])

    watched.page.route("**/models", twice)
    watched.page.route("**/models/z-de-en/curves", lambda route: route.fulfill(json={"curves": [], "reason": "None."}))
    page = watched.goto("#translate?view=translate&pair=de.en")
    page.wait_for_selector("#answers:not(:empty)")
    assert page.inner_text("#answers").startswith("tiny-de-en answers: ")
    assert reason in page.inner_text("#answers")
    page.click("nav [data-room=models]")
    page.wait_for_selector(".model h2 >> text=z-de-en")
    cards = page.locator(".model").all_inner_texts()
    assert f"German → English: tiny-de-en answers: {reason}" in cards[0]
    assert "German → English: tiny-de-en answers, unless you choose this model." in cards[1]
    assert "answers" not in cards[2]  # its pair is its own
    page.click("nav [data-room=translate]")
    page.select_option("#model", "z-de-en")
    assert page.inner_text("#answers") == "z-de-en answers: you chose it."


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_picture_follows_the_theme_on_a_phone(chromium: Any, served: Server, scheme: str) -> None:
    with Watched.opened(chromium, served.base, color_scheme=scheme, viewport={"width": 320, "height": 800}) as watched:
        page = watched.goto("#models")
        page.wait_for_selector(".training svg")
        colour = "getComputedStyle(document.querySelector('{}')).{}"
        ground = page.evaluate(colour.format("body", "backgroundColor"))
        quiet = page.evaluate(colour.format(".model dt", "color"))
        lines = [
            page.evaluate(colour.format(f"path.{name}", "stroke")) for name in ("loss", "valid_loss", "valid_bleu")
        ]
        assert len({ground, *lines}) == 4
        assert page.evaluate(colour.format(".training text", "fill")) == quiet == lines[2]
        assert page.evaluate("document.querySelector('.training svg').getBoundingClientRect().width") <= 320
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        watched.clean()
