"""Texts of pairs without a model: two models in turn, with the cost and the notices of both."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.engine.interface import ModelInfo, Notice, TranslationRequest, TranslationResult, Usage
from app.errors import InvalidRequest, Overloaded, UnknownPair
from app.translation import TextRequest
from app.translation.cached_engine import TranslationCache
from app.translation.driver import Translator
from app.translation.pivot import LanguageRoutes, PivotTranslator
from tests.app.api.fake_engine import FakeEngine, translator
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request

GERMAN = {"hund": "dog", "haus": "house", "groß": "big"}
FRENCH = {"dog": "chien", "house": "maison", "big": "grand"}


@dataclass
class TwoEngines(WordEngine):
    """German into English and English into French, word by word."""

    loaded: list[ModelInfo] = field(default_factory=lambda: [translator("de", "en"), translator("en", "fr")])
    words: dict[str, str] = field(default_factory=lambda: GERMAN | FRENCH)

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        options = request.options
        pair = options.source_language, options.target_language
        if not any(pair in model.language_pairs for model in self.loaded):
            raise UnknownPair("no such model")
        notices = self.notices.get(request.text, ())
        return replace(super()._translation(request), model=f"tiny-{pair[0]}-{pair[1]}", notices=notices)


def pivoting(engine: FakeEngine, cache: TranslationCache | None = None) -> PivotTranslator:
    return PivotTranslator(Translator(engine, cache), LanguageRoutes(engine))


def translated(engine: FakeEngine, *requests: TextRequest) -> list[TranslationResult]:
    return asyncio.run(pivoting(engine).translate(requests))


def test_two_models_translate_in_turn_and_are_named() -> None:
    engine = TwoEngines()
    direct, pivoted = translated(engine, text_request("hund", "de", "en"), text_request("Haus. Hund!\n", "de", "fr"))
    assert (direct.text, direct.notices) == ("dog", ())
    assert pivoted.text == "maison. chien!\n"
    assert pivoted.model == "tiny-en-fr"
    assert pivoted.usage == Usage(4, 4, 0.002, None, 1.0)
    (notice,) = pivoted.notices
    assert (notice.code, notice.models) == ("pivot", ("tiny-de-en", "tiny-en-fr"))
    assert notice.message.startswith("Translated through English, by tiny-de-en and then tiny-en-fr")
    assert engine.source_texts == ["hund", "Haus.", "Hund!", "house.", "dog!"]


def test_what_no_model_reads_comes_back_without_a_notice() -> None:
    (result,) = translated(TwoEngines(), text_request(" 🙂\n", "de", "fr"))
    assert (result.text, result.notices) == (" 🙂\n", ())


def test_links_marks_tags_and_layout_pass_both_models() -> None:
    engine = TwoEngines()
    text = "  hund 🐕 https://a.example/x?y=1 haus\n\n• groß\n"
    (result,) = translated(engine, text_request(text, "de", "fr"))
    assert result.text == "  chien 🐕 https://a.example/x?y=1 maison\n\n• grand\n"
    (page,) = translated(engine, text_request("<p>hund <b>haus</b></p><p>groß</p>", "de", "fr", format="html"))
    assert page.text == "<p>chien <b>maison</b></p><p>grand</p>"
    assert [notice.code for notice in page.notices] == ["pivot"]


def test_prefix_and_alternatives_are_the_second_models() -> None:
    engine = TwoEngines()
    (result,) = translated(engine, text_request("hund", "de", "fr", prefix="le", alternatives=2, beam_size=3))
    assert (result.text, result.alternatives) == ("le chien", ("le chien (1)", "le chien (2)"))
    first, second = (request.options for request in engine.requests if isinstance(request, TranslationRequest))
    assert (first.prefix, first.alternatives, first.decoding.beam_size) == ("", 0, 3)
    assert (second.prefix, second.alternatives, second.decoding.beam_size) == ("le", 2, 3)


def test_notices_of_the_first_model_keep_their_places() -> None:
    engine = FakeEngine([translator("de", "en"), translator("en", "fr")])
    unknown = Notice("unknown_words", "x", 3, 7)
    engine.notices = {
        "der Quax": (unknown,),
        "en:der Quax": (Notice("unknown_words", "y", 0, 2), Notice("low_probability", "z", 0, 11)),
    }
    engine.repetitive = frozenset({"der Quax"})
    (result,) = translated(engine, text_request("der Quax", "de", "fr"))
    assert result.text == "fr:en:der Quax"
    assert [notice.code for notice in result.notices] == ["pivot", "unknown_words", "low_probability"]
    assert result.notices[1:] == (unknown, Notice("low_probability", "z"))  # its place would be in the English text
    assert result.finish_reason == "repetition"


def test_words_that_the_answer_has_no_more_are_not_marked() -> None:
    engine = FakeEngine([translator("de", "en"), translator("en", "fr")])
    invented = [Notice("invented_words", word, 0, 3, word=word) for word in ("hunder", "hund", "en")]
    engine.notices = {"hund": tuple(invented)}
    (direct,) = translated(engine, text_request("hund", "de", "en"))
    assert direct.notices == tuple(invented[1:])
    (pivoted,) = translated(engine, text_request("hund", "de", "fr"))
    assert pivoted.notices[1:] == tuple(invented[1:])
    first = Notice("invented_words", "dog", 0, 4, word="dog")
    (second,) = translated(TwoEngines(notices={"hund": (first,)}), text_request("hund", "de", "fr"))
    assert [notice.code for notice in second.notices] == ["pivot"], "the French text has no dog"


@pytest.mark.parametrize(
    ("options", "name", "sentence"),
    [
        ({"wants": frozenset({"alignment", "scores"})}, "return", '"return" asks for "alignment", "scores"'),
        ({"glossary": {"hund": "chien"}}, "glossary", "A glossary is for pairs that one model translates"),
        ({"model": "tiny-de-en"}, "model", '"model" names one translator'),
    ],
)
def test_what_two_models_cannot_answer_is_refused(options: dict[str, Any], name: str, sentence: str) -> None:
    engine = TwoEngines()
    with pytest.raises(InvalidRequest, match="de → fr goes through English here, by two models") as refusal:
        translated(engine, text_request("hund", "de", "fr", **options))
    assert refusal.value.message.startswith(sentence)
    assert refusal.value.field == name
    assert engine.source_texts == []


def test_an_unreachable_pair_is_the_engines_to_refuse() -> None:
    with pytest.raises(UnknownPair):
        translated(TwoEngines(), text_request("hund", "fr", "de"))


def test_the_second_model_waits_for_room_and_the_first_is_refused() -> None:
    full = Overloaded("full", retry_after_s=1)
    engine = TwoEngines(refusals=[None, full, full])
    (result,) = translated(engine, text_request("hund", "de", "fr"))
    assert result.text == "chien"
    with pytest.raises(Overloaded):
        translated(TwoEngines(refusals=[full]), text_request("hund", "de", "fr"))


def test_sentences_of_both_models_are_cached() -> None:
    engine = TwoEngines()
    cached = pivoting(engine, TranslationCache(1_000_000))
    for _ in range(2):
        (result,) = asyncio.run(cached.translate([text_request("hund", "de", "fr")]))
        assert result.text == "chien"
    assert engine.source_texts == ["hund", "dog"]
    asyncio.run(cached.translate([text_request("hund", "de", "en")]))
    assert engine.source_texts == ["hund", "dog"]


def test_the_second_models_text_is_streamed() -> None:
    async def stream() -> tuple[list[str], TranslationResult]:
        async with pivoting(TwoEngines()).stream(text_request("hund. haus.", "de", "fr")) as opened:
            shown = [delta.text async for delta in opened.deltas()]
            return shown, opened.result

    shown, result = asyncio.run(stream())
    assert "".join(shown) == result.text == "chien. maison."
    assert len(shown) > 2
    assert [notice.code for notice in result.notices] == ["pivot"]
