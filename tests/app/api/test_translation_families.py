"""A text is translated the same whatever family's client sends it; each family keeps its own names of the fields."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.app.api.client import Client, recorded

TEXT = "Hallo Welt."


class Names(NamedTuple):
    """What a family calls the parts of a translation. one: it takes a text and no list."""

    texts: str
    source: str
    target: str
    one: bool = False

    def body(self, text: str, **more: Any) -> dict[str, Any]:
        return {self.texts: text if self.one else [text], self.source: "de", self.target: "en", **more}


FAMILIES = {
    "/translate": Names("q", "source", "target"),
    "/imme": Names("text_list", "source_lang", "target_lang"),
    "/kiss": Names("texts", "from", "to"),
    "/deeplx": Names("text", "source_lang", "target_lang", one=True),
    "/v2/translate": Names("text", "source_lang", "target_lang"),
    "/language/translate/v2": Names("q", "source", "target"),
}


@pytest.mark.parametrize("path", FAMILIES)
def test_text_reaches_the_translator_as_that_of_any_family(path: str) -> None:
    client = Client()
    spy = recorded(client)
    more = {"format": "text"} if path.startswith("/language") else {}
    answer = client.post(path, json=FAMILIES[path].body(TEXT, **more))
    assert answer.status_code == 200, answer.text
    (job,) = spy.requests
    assert (job.text, job.format, job.split, job.glossary, job.unchanged) == (TEXT, "text", True, {}, None)
    assert (job.options.source_language, job.options.target_language) == ("de", "en")
    assert "en:Hallo Welt." in answer.text


@pytest.mark.parametrize("path", FAMILIES)
def test_refusal_of_a_long_text_names_the_field_of_the_family(path: str) -> None:
    client, names = Client(max_text_characters=5), FAMILIES[path]
    answer = client.post(path, json=names.body(TEXT))
    assert answer.status_code in (400, 422)
    assert f'\\"{names.texts}\\" has a text of 11 characters; one text may have 5.' in answer.text


@pytest.mark.parametrize("path", FAMILIES)
def test_text_is_charged_once(path: str) -> None:
    answer = Client(rate_limit="10/hour").post(path, json=FAMILIES[path].body(TEXT))
    assert (answer.status_code, answer.headers["RateLimit-Remaining"]) == (200, "9")
