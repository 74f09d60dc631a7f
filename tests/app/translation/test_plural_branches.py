"""Plurals of Rails, of i18next and of Android: each branch is a text of its own, its key or quantity stays as it is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from app.translation import TextFormat
from app.translation.driver import Translator
from tests.app.translation.test_sentence import without_symbols
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request

ROWS = """\
de:
  inbox:
    zero: Keine Katzen
    one: Eine Katze
    few: "%{count} Katzen"
    other: "%{count} neue Katzen von %{name}"
"""
RESOURCES = """\
<resources>
    <plurals name="cats">
        <item quantity="one">%d Katze schläft</item>
        <item quantity="few">%1$d <b>Katzen</b></item>
        <item quantity="other">%1$d Katzen von <xliff:g id="n" example="Anna">%2$s</xliff:g></item>
    </plurals>
</resources>
"""
PLURALS: dict[str, tuple[TextFormat, str, list[str]]] = {
    "json": ("text", '{"one": "%{count} Katze", "other": "%{count} Katzen"}', ["Katze", "Katzen"]),
    "nested json": (
        "text",
        '{"cats": {"one": "Eine Katze.", "other": "%{count} Katzen."}}',
        ["Eine Katze.", "Katzen."],
    ),
    "json of i18next": (
        "text",
        '  "cat_one": "{{count}} Katze",\n  "cat_other": "{{count}} Katzen"',
        ["Katze", "Katzen"],
    ),
    "yaml": ("text", ROWS, ["Keine Katzen", "Eine Katze", "Katzen", "neue Katzen von"]),
    "xml": ("xml", RESOURCES, ["Katze schläft", "Katzen", "Katzen von"]),
    "xml as a page": ("html", RESOURCES, ["Katze schläft", "Katzen", "Katzen von"]),
}


@pytest.mark.parametrize("alter", [str, without_symbols], ids=["copies", "copies nothing"])
@pytest.mark.parametrize(("text_format", "text", "branches"), PLURALS.values(), ids=PLURALS)
def test_branches_are_translated_and_their_keys_stay(
    alter: Callable[[str], str], text_format: TextFormat, text: str, branches: list[str]
) -> None:
    wanted, at = "", 0
    for branch in branches:
        begins = text.index(branch, at)
        wanted += text[at:begins] + branch.upper()
        at = begins + len(branch)
    wanted += text[at:]
    engine = WordEngine(alter=alter)
    request = text_request(text, "de", "en", format=text_format)
    (result,) = asyncio.run(Translator(engine).translate([request]))
    assert result.text == wanted
    assert all(len(re.findall("Katzen?", read)) == 1 for read in engine.source_texts), "each is read by itself"
