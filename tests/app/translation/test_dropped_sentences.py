"""Texts that a model reads as one sentence (`split=false`), and of which it may translate the first sentence alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from app.engine.interface import TranslationRequest, TranslationResult
from app.translation.driver import Translator
from tests.app.translation.test_streamed_text import stream
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request

THREE = "Ein Hund schläft im Gras. Zwei Kinder spielen am Ufer. Die Sonne scheint auf das Wasser."


@dataclass
class SentenceEngine(WordEngine):
    """Writes the first `kept` sentences of what it reads, and joins the sentences of a joiner with commas."""

    kept: int = 1
    joins: bool = False

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        result = super()._translation(request)
        parts = result.text.split(". ")
        text = ", ".join(parts) if self.joins else ". ".join(parts[: self.kept])
        return TranslationResult(text if text.endswith(".") else f"{text}.", finish_reason=result.finish_reason)


def notices(engine: WordEngine, text: str, **options: object) -> list[tuple[int | None, int | None]]:
    request = text_request(text, "de", "en", **{"split": False, **options})  # type: ignore[arg-type]
    (result,) = asyncio.run(Translator(engine).translate([request]))
    found = [notice for notice in result.notices if notice.code == "dropped_sentences"]
    assert found == [*result.notices]
    return [(notice.start, notice.end) for notice in found]


def test_text_with_one_sentence_of_three_has_a_notice_with_its_place() -> None:
    assert notices(SentenceEngine(), THREE) == [(0, len(THREE))]
    heading = "# Zum See\n\n"
    assert notices(SentenceEngine(), heading + THREE) == [(len(heading), len(heading + THREE))]
    assert notices(SentenceEngine(), f"<p>{THREE}</p>", format="html") == [(None, None)]


def test_streamed_text_has_it_too() -> None:
    text, result = stream(SentenceEngine(), THREE, split=False)
    assert "".join(text) == result.text == "EIN HUND SCHLÄFT IM GRAS."
    assert [notice.code for notice in result.notices] == ["dropped_sentences"]
    assert "3 sentences as one and wrote 1" in result.notices[0].message


@pytest.mark.parametrize(
    "engine", [SentenceEngine(kept=3), SentenceEngine(joins=True), SentenceEngine(ends_after=5)], ids=str
)
def test_whole_joined_and_cut_off_translations_have_none(engine: SentenceEngine) -> None:
    """A translation that the token limit has cut off says so by its finish_reason."""
    assert notices(engine, THREE, max_new_tokens=5 if engine.ends_after == 5 else None) == []


def test_sentences_that_are_translated_one_by_one_have_none() -> None:
    assert notices(SentenceEngine(), THREE, split=True) == []


def test_ideographs_count_as_several_letters() -> None:
    """A whole translation into Chinese has half as many characters as its English source."""
    english = "A dog sleeps. Two children play. The sun shines."
    chinese = WordEngine(alter=lambda word: "狗狗")
    request = text_request(english, "de", "zh", split=False)
    (result,) = asyncio.run(Translator(chinese).translate([request]))
    assert len(result.text) < 0.7 * len(english)
    assert result.notices == ()
