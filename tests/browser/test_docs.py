"""/docs in Chromium: every operation answers its example as it stands, and the key is asked for where one is needed.

DEMO_CHECKPOINTS=FOLDER takes the models that come with Parlance in the place of tiny models of their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from app.api.families import FAMILIES
from tests.app.api.keyed_client import USE, keys_file
from tests.browser.chromium import Watched
from tests.serving import Server, serving
from tests.tiny import write_lyricist, write_multilingual

pytestmark = pytest.mark.browser
ADMIN_KEY = "correct-horse-battery"
LAST = ("delete_dictionary", "delete_glossary", "delete_multilingual")
GUARDED = ("unload_model", "load_model", "reload_model")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get("DEMO_CHECKPOINTS"):
        return Path(given)
    folder = tmp_path_factory.mktemp("demo")
    write_multilingual(folder / "everyday", [("de", "en"), ("en", "es")])
    write_lyricist(folder / "lyrics-zh")
    return folder


@pytest.fixture(scope="module")
def server(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with (
        mock.patch.dict(os.environ, HF_HUB_OFFLINE="1"),
        serving(checkpoints, tmp_path_factory.mktemp("docs"), ADMIN_KEY=ADMIN_KEY) as running,
    ):
        yield running


@pytest.fixture
def docs(chromium: Any, server: Server) -> Iterator[Watched]:
    with opened(chromium, server) as watched:
        yield watched
        watched.clean()


def opened(chromium: Any, server: Server) -> Any:
    return Watched.opened(chromium, server.base, viewport={"width": 1200, "height": 1000})


def at_docs(watched: Watched, server: Server) -> Any:
    watched.page.goto(f"{server.base}/docs")
    watched.page.wait_for_selector(".opblock")
    watched.page.wait_for_timeout(300)  # onComplete runs after the first drawing
    return watched.page


def block(page: Any, tag: str, name: str) -> Any:
    """An operation, open."""
    tag_header = page.locator(f"#operations-tag-{tag}")
    if tag_header.get_attribute("data-is-open") == "false":
        tag_header.click()
    found = page.locator(f"#operations-{tag}-{name}")
    found.wait_for()
    if "is-open" not in (found.get_attribute("class") or ""):
        found.locator(".opblock-summary-control").click()
        found.locator(".execute").wait_for()
    return found


def executed(found: Any, *, file: bool = False, close: bool = False) -> int:
    if file:  # the form is drawn after the button: choosing waits for it, counting would not
        letter = {"name": "letter.txt", "mimeType": "text/plain", "buffer": "ich möchte ein bier".encode()}
        found.locator("input[type=file]").set_input_files(letter)
    found.locator(".execute").click()
    status = found.locator(".live-responses-table tbody .response-col_status").first
    status.wait_for()
    code = int(status.inner_text().split()[0])
    if close:  # Swagger UI draws every open operation anew with each answer
        found.locator(".opblock-summary-control").click()
    return code


def takes_a_file(operation: dict[str, Any], schemas: dict[str, Any]) -> bool:
    form = operation.get("requestBody", {}).get("content", {}).get("multipart/form-data")
    if not form:
        return False
    schema = form["schema"]
    schema = schemas[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    return "file" in schema["properties"]


def authorize(page: Any, key: str) -> None:
    dialog = page.locator(".auth-container").filter(has_text="ApiKey")
    dialog.locator("input").fill(key)
    dialog.locator("button.authorize").click()
    page.locator("button.btn-done").first.click()


def test_groups_of_other_protocols_come_last_and_closed(docs: Watched, server: Server) -> None:
    page = at_docs(docs, server)
    groups = {
        each.get_attribute("data-tag"): each.get_attribute("data-is-open")
        for each in page.locator(".opblock-tag").all()
    }
    assert list(groups.items()) == [(row.name, "false" if row.protocol else "true") for row in FAMILIES]
    assert [row.protocol for row in FAMILIES] == sorted(row.protocol for row in FAMILIES)


def test_every_operation_answers_its_example_as_it_stands(docs: Watched, server: Server) -> None:
    page = at_docs(docs, server)
    docs.refused.update({401, 403, 409})
    document = server.ask("/openapi.json")
    described = [operation for methods in document["paths"].values() for operation in methods.values()]
    uploads = {each["operationId"] for each in described if takes_a_file(each, document["components"]["schemas"])}
    operations = [(operation["tags"][0], operation["operationId"]) for operation in described]
    operations.sort(key=lambda each: LAST.index(last) + 1 if (last := each[1].removeprefix("deepl_")) in LAST else 0)
    assert executed(block(page, "Models", "unload_model")) == 401
    authorize(page, ADMIN_KEY)  # the page has asked for it
    assert [executed(block(page, "Models", name), close=True) for name in GUARDED] == [200, 200, 200]
    answers = {
        name: executed(block(page, tag, name), file=name in uploads, close=True)
        for tag, name in operations
        if name not in GUARDED
    }
    assert len(answers) > 40
    assert {name: status for name, status in answers.items() if not 200 <= status < 300} == {}


def test_a_key_is_asked_for_and_sent(
    chromium: Any, checkpoints: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("locked")
    with serving(checkpoints, folder, KEYS_FILE=str(keys_file(folder))) as locked, opened(chromium, locked) as watched:
        page = at_docs(watched, locked)
        found = block(page, "Translate", "translate")
        assert executed(found) == 400  # LibreTranslate's status of a missing key
        authorize(page, USE)
        found.locator(".btn-clear").click()
        assert executed(found) == 200
        watched.refused.add(400)
        watched.clean()


def test_old_address_of_the_reference_leads_to_it(docs: Watched, server: Server) -> None:
    docs.page.goto(f"{server.base}/redoc")
    docs.page.wait_for_selector(".opblock")
    assert docs.page.url == f"{server.base}/docs"
