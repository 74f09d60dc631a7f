"""A server with keys: the page requests the key once, in words for a reader and not for a program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.api.keyed_client import USE, keys_file
from tests.browser.chromium import Watched
from tests.serving import Server, serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def locked(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("locked")
    with serving(tiny_checkpoints, folder, KEYS_FILE=str(keys_file(folder))) as server:
        yield server


@pytest.fixture
def page(chromium: Any, locked: Server) -> Iterator[Any]:
    with Watched.opened(chromium, locked.base) as watched:
        page = watched.page
        page.goto(locked.base + "/#models")
        yield page
        assert watched.foreign == []
        assert not [error for error in watched.errors if "40" not in error]


def kept_key(page: Any) -> list[str | None]:
    """What localStorage and sessionStorage keep."""
    kept: list[str | None] = page.evaluate("[localStorage, sessionStorage].map(store => store.getItem('parlance.key'))")
    return kept


def test_key_is_requested_until_it_is_valid(page: Any) -> None:
    dialog = page.locator("dialog")
    dialog.wait_for()
    assert dialog.inner_text().startswith("This server asks for a key. Whoever runs it gives you one.")
    field = page.get_by_label("API key")
    assert field.evaluate("element => element === document.activeElement")
    field.fill("wrong")
    field.press("Enter")
    page.get_by_text("Invalid API key").wait_for()
    assert "header" not in dialog.inner_text()
    page.get_by_label("API key").fill(USE)
    page.get_by_role("button", name="Use this key").click()
    page.locator(".model h2").first.wait_for()
    assert dialog.count() == 0
    page.click("[data-room=translate]")
    page.fill("#source", "bier")
    page.locator("[data-side=t]").first.wait_for()
    assert dialog.count() == 0
    assert kept_key(page) == [None, USE]
    assert USE not in page.url
    page.reload()
    page.locator("[data-side=t]").first.wait_for()
    assert dialog.count() == 0


def test_remembered_key_is_there_in_another_tab_until_it_is_forgotten(page: Any, locked: Server) -> None:
    page.get_by_label("API key").fill(USE)
    page.get_by_label("Remember on this device").check()
    page.get_by_role("button", name="Use this key").click()
    page.locator(".model h2").first.wait_for()
    assert kept_key(page) == [USE, None]
    other = page.context.new_page()
    other.goto(locked.base + "/#models")
    other.locator(".model h2").first.wait_for()
    other.get_by_role("button", name="Forget key").click()
    other.locator("dialog").wait_for()
    assert kept_key(other) == [None, None]
    assert not other.get_by_role("button", name="Forget key").is_visible()


@pytest.mark.parametrize("store", ["localStorage", "sessionStorage"])
def test_kept_key_that_is_wrong_is_forgotten(page: Any, store: str) -> None:
    page.evaluate(f"{store}.setItem('parlance.key', 'revoked')")
    page.reload()
    page.get_by_text("Invalid API key").wait_for()
    assert kept_key(page) == [None, None]
    page.get_by_label("API key").fill(USE)
    page.keyboard.press("Enter")
    page.locator(".model h2").first.wait_for()
    assert kept_key(page) == [None, USE], "remembered only where the reader says so"


@pytest.mark.parametrize("way", ["Escape", "button"])
def test_cancelled_key_prompt_does_not_return(page: Any, way: str) -> None:
    page.locator("dialog").wait_for()
    page.get_by_label("API key").fill("typed and not meant")
    if way == "button":
        page.get_by_role("button", name="Go on without").click()
    else:
        page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    page.wait_for_timeout(2500)  # the page has sent another request meanwhile
    assert page.locator("dialog").count() == 0
