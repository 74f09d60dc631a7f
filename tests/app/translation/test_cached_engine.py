"""Translations that were asked for before: no two questions share one, and the memory has its bound."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.engine.interface import TranslationOptions, TranslationRequest, TranslationResult, Usage
from app.translation.cached_engine import TranslationCache
from app.translation.text_translator import Translator
from models.decoding.options import DecodingOptions
from tests.app.translation.word_engine import WordEngine, with_reload
from tests.request_builders import changed, text_request, translation_request

JOB = translation_request("ein Satz", "de", "en", "tiny-de-en")
OTHERS = {
    "text": "ein  Satz",
    "source_language": "nl",
    "target_language": "fr",
    "model": None,
    "alternatives": 1,
    "beam_size": 1,
    "length_penalty": 1.0,
    "max_new_tokens": 5,
    "prefix": "a",
    "required": (("a",),),
    "no_repeat_ngram_size": 2,
    "wants": frozenset({"scores"}),
    "temperature": 0.5,
    "top_k": 3,
    "top_p": 0.5,
    "seed": 1,
    "scores": False,
    "logprobs": True,
    "streamed": False,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "repetition_penalty": 1.5,
}


def answer(text: str) -> TranslationResult:
    return TranslationResult(text, (), "stop", "tiny-de-en")


@pytest.mark.parametrize("field", OTHERS)
def test_no_two_questions_share_an_answer(field: str) -> None:
    cache = TranslationCache(1_000_000)
    cache.put(("m", 1, JOB), answer("a"))
    assert cache.get(("m", 1, changed(JOB, **{field: OTHERS[field]}))) is None
    assert cache.get(("m", 1, replace(JOB))) == answer("a")
    assert cache.get(("m", 2, JOB)) is None
    assert cache.get(("n", 1, JOB)) is None


def test_every_field_of_a_question_is_told_apart() -> None:
    named = {*TranslationRequest.__slots__, *TranslationOptions.__slots__, *DecodingOptions.__slots__}
    assert named - {"options", "decoding", "n_best", "top_logprobs"} == set(OTHERS)
    assert ("a", ("b",)) != ("a|b",)
    jobs = [replace(JOB, required=(("a", "b"),)), replace(JOB, required=(("a",), ("b",))), replace(JOB, required=())]
    assert len(set(jobs)) == 3


def test_the_memory_is_bounded_and_the_latest_used_stay() -> None:
    cache = TranslationCache(7_000)
    for text in "abc":
        cache.put(("m", 1, replace(JOB, text=text)), answer(text))
    assert cache.get(("m", 1, replace(JOB, text="a"))) == answer("a")
    cache.put(("m", 1, replace(JOB, text="d")), answer("d"))
    there = [text for text in "abcd" if cache.get(("m", 1, replace(JOB, text=text)))]
    assert there == ["a", "c", "d"]
    assert cache.bytes <= 7_000
    cache.put(("m", 1, replace(JOB, text="e")), answer("x" * 10_000))
    assert len(cache) == 3
    cache.put(("m", 1, replace(JOB, text="d")), answer("dd"))
    assert len(cache) == 3


def test_sizes_are_counted_as_they_go() -> None:
    cache = TranslationCache(100_000)
    for number in range(200):
        cache.put(("m", 1, replace(JOB, text=str(number % 50))), answer("x" * number))
        assert cache.bytes <= 100_000
    assert 0 < len(cache) < 50


def translated(translator: Translator, text: str = "Ein Satz.", **options: object) -> str:
    (found,) = asyncio.run(translator.translate([text_request(text, "de", "en", **options)]))  # type: ignore[arg-type]
    return found.text


def test_a_sentence_is_asked_once_within_its_version() -> None:
    engine = WordEngine()
    translator = Translator(engine, TranslationCache(1_000_000))
    assert translated(translator) == translated(translator) == "EIN SATZ."
    assert translated(translator, "Ein Satz. Noch einer.") == "EIN SATZ. NOCH EINER."
    assert engine.asked == ["Ein Satz.", "Noch einer."]
    engine.words = {"satz": "sentence"}
    with_reload(engine)
    assert translated(translator) == "EIN sentence."
    assert translated(translator, beam_size=1) == "EIN sentence."
    assert len(engine.asked) == 4


def test_what_was_known_costs_nothing() -> None:
    translator = Translator(WordEngine(), TranslationCache(1_000_000))
    job = text_request("Ein Satz.", "de", "en")
    first, second = (asyncio.run(translator.translate([job]))[0] for _ in range(2))
    assert first.usage.read_tokens == 2
    assert second == replace(first, usage=Usage())


def test_an_answer_across_a_reload_is_not_kept() -> None:
    class Reloading(WordEngine):
        async def translate(self, jobs):  # type: ignore[no-untyped-def]
            found = await super().translate(jobs)
            with_reload(self)
            return found

    engine = Reloading()
    translator = Translator(engine, TranslationCache(1_000_000))
    translated(translator)
    translated(translator)
    assert len(engine.asked) == 2


def test_without_memory_nothing_is_kept() -> None:
    engine = WordEngine()
    translator = Translator(engine)
    translated(translator)
    translated(translator)
    assert len(engine.asked) == 2
