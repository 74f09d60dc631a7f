"""HTML pages through a scripted translator, which writes capitals and swaps the first two words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.engine.interface import AlignedWord, FinishReason, TranslationRequest, TranslationResult, Usage
from app.text.html_page import HtmlPage, parse_page
from app.text.page_parser import TagRules
from app.translation import TextRequest, pipeline
from app.translation.driver import Translator
from tests.app.api.fake_engine import FakeEngine
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import changed, text_request, translation_request


class Capitals(FakeEngine):
    def __init__(self, alignment: bool = True) -> None:
        super().__init__()
        self.calls: list[list[TranslationRequest]] = []
        self._alignment = alignment

    async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
        self.calls.append(list(requests))
        return [self._translation(request) for request in requests]

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        results = list(re.finditer(r"\S+", request.text))
        results[:2] = reversed(results[:2])
        out, alignment = "", []
        for result in results:
            out += " " * bool(out)
            alignment.append(AlignedWord(len(out), len(out) + len(result[0]), *result.span(), 1.0))
            out += result[0].upper()
        reason: FinishReason = "length" if "endless" in request.text else "stop"
        usage = Usage(len(results), 2 * len(results), 0.25, None, len(results) / 10)
        alignment_ = tuple(alignment) if self._alignment and "alignment" in request.options.wants else None
        scores = (-float(len(results)),) if "scores" in request.options.wants else None
        return TranslationResult(out, (), reason, "tiny-de-en", usage, scores, None, alignment_)


async def one_page(request: TextRequest, engine: Capitals) -> TranslationResult:
    (translated,) = await Translator(engine).translate([request])
    return translated


def page(text: str, **fields: Any) -> TextRequest:
    return text_request(text, "de", "en", format="html", **fields)


def test_texts_of_all_pages_are_translated_in_one_call() -> None:
    engine = Capitals()
    plain = text_request("as it is", "de", "en", alternatives=2)
    requests = [page("<p>one <b>two</b></p><p>three</p>", prefix="Zwei"), plain, page("<hr>")]
    answers = asyncio.run(Translator(engine).translate(requests))
    first = translation_request("one two", "de", "en", prefix="Zwei", wants=frozenset({"alignment"}))
    third = translation_request("as it is", "de", "en", alternatives=2)
    assert engine.calls == [[first, changed(first, text="three", prefix=""), third]]
    texts = [answer.text for answer in answers]
    assert texts == ["<p><b>TWO</b> ONE</p><p>THREE</p>", "IT AS IS", "<hr>"]


def test_scores_usage_and_finish_reason_of_a_page() -> None:
    request = page("<p>one two three</p>endless", wants=frozenset({"scores", "tokens", "alignment"}), alternatives=3)
    answer = asyncio.run(one_page(request, Capitals()))
    assert answer == TranslationResult(
        "<p>TWO ONE THREE</p>ENDLESS", (), "length", "tiny-de-en", Usage(4, 8, 0.25, None, 0.3), (-2.0,), None, None
    )


def test_page_without_text_is_not_translated() -> None:
    engine = Capitals()
    answer = asyncio.run(one_page(page("<p><code>x</code> </p>"), engine))
    assert answer == TranslationResult("<p><code>x</code> </p>")
    assert engine.calls == []


@pytest.mark.parametrize("alignment", [True, False])
def test_text_outside_tags_is_the_translation_of_the_plain_text(alignment: bool) -> None:
    text = "one <b>two <i>three</i></b>, <a href='x'>four</a> &amp; <span>five</span>"
    answer = asyncio.run(one_page(page(text), Capitals(alignment)))
    assert re.sub("<[^>]*>", "", answer.text) == "TWO ONE THREE, FOUR &amp; FIVE"
    assert sorted(re.findall("<[^>]*>", answer.text)) == sorted(re.findall("<[^>]*>", text))


def test_long_page_is_the_sum_of_its_parts() -> None:
    part = "<p>one <b>two</b> three</p>\n"
    assert (asyncio.run(one_page(page(part * 200), Capitals()))).text == "<p><b>TWO</b> ONE THREE</p>\n" * 200


class AlignedEngine(FakeEngine):
    def _translation(self, request: TranslationRequest) -> TranslationResult:
        alignment = tuple(AlignedWord(*match.span(), *match.span(), 1.0) for match in re.finditer(r"\S+", request.text))
        return replace(super()._translation(request), text=request.text.upper(), alignment=alignment)


def test_html_is_streamed_in_one_piece() -> None:
    async def scene() -> None:
        request = page("<p>ein <b>Haus</b></p>\n<script>x</script>")
        translator = Translator(AlignedEngine())
        (answer,) = await translator.translate([request])
        assert answer.text == "<p>EIN <b>HAUS</b></p>\n<script>x</script>"
        async with translator.stream(request) as stream:
            assert "".join([delta.text async for delta in stream.deltas()]) == answer.text
            assert stream.result == answer

    asyncio.run(scene())


@pytest.mark.parametrize("text", ["a&#32; b", "a&#10; b", "x&Tab; y<b>z</b>", "&#32;", " &#32; a"])
def test_character_references_for_whitespace_are_whitespace(text: str) -> None:
    (translation,) = asyncio.run(Translator(FakeEngine()).translate([page(text)]))
    assert translation.text.count("<") == text.count("<")


def test_many_pages_are_parsed_and_translated_a_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects of all pages of 2 MB would be in memory at once."""
    parsed: list[int] = []

    class CountingEngine(WordEngine):
        async def translate(self, requests: Sequence[TranslationRequest]) -> list[TranslationResult]:
            parsed.append(pages)
            return await super().translate(requests)

    pages = 0

    def parse(source: str, rules: TagRules) -> HtmlPage:
        nonlocal pages
        pages += 1
        return parse_page(source, rules)

    monkeypatch.setattr(pipeline, "parse_page", parse)
    texts = [f"<p>seite {number}</p>" + "<p>ein haus</p>" * 2000 for number in range(6)]
    results = asyncio.run(Translator(CountingEngine()).translate([page(text) for text in texts]))
    assert [result.text.count("EIN HAUS") for result in results] == [2000] * 6
    assert [result.text.partition("</p>")[0] for result in results] == [f"<p>SEITE {number}" for number in range(6)]
    assert parsed[0] < pages == 6
