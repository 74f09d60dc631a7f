"""A translation has the layout of its source, whatever layout the model writes."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.engine.interface import AlignedWord, TranslationRequest, TranslationResult
from app.translation.driver import Translator
from app.translation.edits import LayoutFilter, strip_invented_layout
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request


class RandomWordsEngine(WordEngine):
    """Writes words of its own, with layout, and aligns them anyhow."""

    seed = 0

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        rng = random.Random(f"{self.seed} {request.text}")
        words = [rng.choice(["a", "dog", "😀", "b\u00a0c", "x  y", "\n", "z\t", "→"]) for _ in range(rng.randint(0, 5))]
        text = " ".join(words)
        sources = [found.span() for found in re.finditer(r"\S+", request.text)]
        links = tuple(
            AlignedWord(*found.span(), *rng.choice(sources), 0.5) for found in re.finditer(r"\S+", text) if sources
        )
        return replace(super()._translation(request), text=text, tokens=None, alignment=links)


def translate(engine: WordEngine, text: str, **options: object) -> TranslationResult:
    request = text_request(text, "de", "en", **options)  # type: ignore[arg-type]
    return asyncio.run(Translator(engine).translate([request]))[0]


def layout(text: str) -> tuple[list[str], Counter[str]]:
    spaces = [found[0] for found in re.finditer(r"\s+", text) if found[0] != " "]
    return spaces, Counter(character for character in text if character in "😀👍\u200d🎉→")


PARTS = ["Haus", "Hund.", "ja,", "5", "  ", "\u00a0", "\u3000", "\n", "\r\n", "\t", "😀", "👍", "→", " ", " ", "{a  b}"]


@settings(max_examples=32, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=12), st.integers(0, 1000))
@example(["Haus", "Haus", "{a  b}", "Haus", "{a  b}", "ja,"], 15)  # two placeholders in one place
def test_spaces_and_emoji_equal_the_source(parts: list[str], seed: int) -> None:
    engine = RandomWordsEngine()
    engine.seed = seed
    text = " ".join(parts) if seed % 2 else "".join(parts)
    assert layout(translate(engine, text).text) == layout(text)


def test_sentence_without_a_place_for_its_spaces_is_translated_in_parts() -> None:
    engine = WordEngine(words={"ein": "", "guter": ""})
    assert translate(engine, "Ein  guter  Hund").text == "Ein  guter  HUND"
    assert translate(engine, "Der  Hund hier").text == "DER  HUND HIER"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a b", "a b"),
        (" a  b\n", "a b"),
        ("a\u00a0b 😀 c", "a b c"),
        ("😀", ""),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("a\u200cb", "ab"),
    ],
)
def test_invented_layout_is_removed(text: str, wanted: str) -> None:
    assert strip_invented_layout(text, "") == wanted
    writing = LayoutFilter("")
    assert "".join(map(writing.add, text)) == wanted


def test_layout_of_the_prefix_stays() -> None:
    assert strip_invented_layout("😀  Ja  nein", "😀  Ja") == "😀  Ja nein"


def test_emoji_between_words_that_became_one_is_kept() -> None:
    result = translate(WordEngine(words={"b": "", "c": ""}), "Wort 😀 b 👍 c 🎉 da").text
    assert layout(result) == ([], Counter("😀👍🎉"))


def test_placeholder_with_spaces_is_kept() -> None:
    engine = WordEngine(backwards=True)
    assert translate(engine, "Hallo {a  b} da").text == "DA {a  b} HALLO"  # behind its word


def test_streams_have_no_invented_layout_either() -> None:
    async def streamed(text: str) -> tuple[str, str]:
        shown = ""
        async with Translator(engine).stream(text_request(text, "de", "en")) as stream:
            async for delta in stream.deltas():
                shown += delta.text
            return shown, stream.result.text

    engine = WordEngine(words={"hund": " dog \u00a0 here 😀", "x": "\u200b"})
    assert asyncio.run(streamed("Ein Hund da.\nx")) == ("EIN dog here DA.\nx",) * 2
