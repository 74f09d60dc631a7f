"""Words in the letters of another script are copied and marked."""

from __future__ import annotations

import asyncio

import pytest

from app.translation.driver import Translator
from tests.app.translation.unreliable_engines import ENGINES, made_engine
from tests.request_builders import text_request


def marked(text: str, engine: str) -> list[str]:
    translator = Translator(made_engine(engine, ("de", "en"), {"hund": "dog"}))
    (result,) = asyncio.run(translator.translate([text_request(text, "de", "en")]))
    notices = [notice for notice in result.notices if notice.code == "unknown_words"]
    words = [text[notice.start : notice.end] for notice in notices]
    for word, notice in zip(words, notices, strict=True):
        assert word in result.text
        assert notice.message == f"“{word}” is in letters of another script than German."
    return words


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ich wohne in 北京.", ["北京"]),
        ("北京", ["北京"]),
        ("Der Hund heißt Бобик. Er ist ein собака-пёс.", ["Бобик", "собака-пёс"]),
        ("der Hund 𝔘nd Bier", ["𝔘nd"]),
        ("Der Hund liest https://пример.рф/путь und {имя}.", []),
        ("Der Hund heißt Gómez, Łódź oder Ångström.", []),
    ],
)
def test_words_of_another_script_are_copied_and_marked(text: str, words: list[str], engine: str) -> None:
    assert marked(text, engine) == words
