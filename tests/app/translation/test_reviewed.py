"""What a reader of this code found."""

from __future__ import annotations

import asyncio

import pytest

from app.engine.errors import Overloaded, TextTooLong
from app.translation.prepare import cut_spans
from app.translation.text_translator import Translator
from tests.app.api.fake_engine import FakeEngine
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request, translation_request

LINK = "https://example.org/file?credential=" + "AbcDef123" * 60


def pages(text: str) -> str:
    (answer,) = asyncio.run(Translator(FakeEngine()).translate([text_request(text, "de", "en", format="html")]))
    return answer.text


@pytest.mark.parametrize("text", ["a&#32; b", "a&#10; b", "x&Tab; y<b>z</b>", "&#32;", " &#32; a"])
def test_white_space_that_is_written_as_a_reference_is_white_space(text: str) -> None:
    assert pages(text).count("<") == text.count("<")


def test_a_long_link_is_cut_out_whole_and_not_in_parts() -> None:
    text = f"See the file at {LINK} for more."
    parts = [text[start:end] for start, end in cut_spans(text, 0, len(text), 200)]
    assert parts == ["See the file at", "for more."]


def test_what_follows_what_has_begun_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine has no room when the sentence is asked for again without its link."""
    engine = WordEngine()
    asked = engine.translate
    calls = 0

    async def translate(jobs):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Overloaded("full", retry_after_s=1)
        found = await asked(jobs)
        return [type(each)(each.text.replace("http", "hxxp"), (), "stop", each.model) for each in found]

    monkeypatch.setattr(engine, "translate", translate)
    (answer,) = asyncio.run(Translator(engine).translate([text_request("see http://a.example/b now", "de", "en")]))
    assert calls >= 3
    assert "http://a.example/b" in answer.text


def test_one_pair_too_long_to_be_aligned_leaves_the_others_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.engine.interface import TranslationResult
    from app.translation.cached_engine import CachedEngine, TranslationCache

    engine = FakeEngine()
    align = engine.align

    async def aligned(model, source, target, pairs):  # type: ignore[no-untyped-def]
        if any("long" in text for text, _ in pairs):
            raise TextTooLong("too long", field="q")
        return await align(model, source, target, pairs)

    monkeypatch.setattr(engine, "align", aligned)
    jobs = [translation_request(text, "de", "en") for text in ("ein hund", "long", "zwei hunde")]
    found = [TranslationResult(job.text, (), "stop", "m") for job in jobs]
    answers = asyncio.run(CachedEngine(engine, TranslationCache()).aligned(jobs, found))
    assert [each.alignment is not None and len(each.alignment) for each in answers] == [2, False, 2]
