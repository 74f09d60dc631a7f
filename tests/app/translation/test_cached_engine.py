"""The cache of translated sentences: no two requests share an entry, and its size is bounded."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.engine.interface import TranslationOptions, TranslationRequest, TranslationResult, Usage
from app.errors import TextTooLong
from app.translation.cached_engine import CachedEngine, TranslationCache
from app.translation.driver import Translator
from models.decoding.options import DecodingOptions
from tests.app.api.fake_engine import FakeEngine
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
    "min_p": 0.1,
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
def test_requests_that_differ_in_one_field_share_no_entry(field: str) -> None:
    cache = TranslationCache(1_000_000)
    cache.put(("m", 1, JOB), answer("a"))
    assert cache.get(("m", 1, changed(JOB, **{field: OTHERS[field]}))) is None
    assert cache.get(("m", 1, replace(JOB))) == answer("a")
    assert cache.get(("m", 2, JOB)) is None
    assert cache.get(("n", 1, JOB)) is None


def test_every_field_of_a_request_is_compared() -> None:
    named = {*TranslationRequest.__slots__, *TranslationOptions.__slots__, *DecodingOptions.__slots__}
    assert named - {"options", "decoding", "n_best", "top_logprobs"} == set(OTHERS)
    assert ("a", ("b",)) != ("a|b",)
    requests = [
        replace(JOB, required=(("a", "b"),)),
        replace(JOB, required=(("a",), ("b",))),
        replace(JOB, required=()),
    ]
    assert len(set(requests)) == 3


def test_least_recently_used_entries_are_dropped() -> None:
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


def test_bytes_follow_replaced_entries() -> None:
    cache = TranslationCache(100_000)
    for number in range(200):
        cache.put(("m", 1, replace(JOB, text=str(number % 50))), answer("x" * number))
        assert cache.bytes <= 100_000
    assert 0 < len(cache) < 50


def translated(translator: Translator, text: str = "Ein Satz.", **options: object) -> str:
    (result,) = asyncio.run(translator.translate([text_request(text, "de", "en", **options)]))  # type: ignore[arg-type]
    return result.text


def test_sentence_is_translated_once_per_model_version() -> None:
    engine = WordEngine()
    translator = Translator(engine, TranslationCache(1_000_000))
    assert translated(translator) == translated(translator) == "EIN SATZ."
    assert translated(translator, "Ein Satz. Noch einer.") == "EIN SATZ. NOCH EINER."
    assert engine.source_texts == ["Ein Satz.", "Noch einer."]
    engine.words = {"satz": "sentence"}
    with_reload(engine)
    assert translated(translator) == "EIN sentence."
    assert translated(translator, beam_size=1) == "EIN sentence."
    assert len(engine.source_texts) == 4


def test_cached_translation_uses_no_tokens() -> None:
    translator = Translator(WordEngine(), TranslationCache(1_000_000))
    request = text_request("Ein Satz.", "de", "en")
    first, second = (asyncio.run(translator.translate([request]))[0] for _ in range(2))
    assert first.usage.read_tokens == 2
    assert second == replace(first, usage=Usage())


def test_result_across_a_reload_is_not_cached() -> None:
    class Reloading(WordEngine):
        async def translate(self, requests):  # type: ignore[no-untyped-def]
            result = await super().translate(requests)
            with_reload(self)
            return result

    engine = Reloading()
    translator = Translator(engine, TranslationCache(1_000_000))
    translated(translator)
    translated(translator)
    assert len(engine.source_texts) == 2


def test_cache_of_0_bytes_keeps_nothing() -> None:
    engine = WordEngine()
    translator = Translator(engine)
    translated(translator)
    translated(translator)
    assert len(engine.source_texts) == 2


def test_pair_too_long_to_align_leaves_the_others_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    align = engine.align

    async def refuses_long(model, source, target, pairs):  # type: ignore[no-untyped-def]
        if any("long" in text for text, _ in pairs):
            raise TextTooLong("too long", field="q")
        return await align(model, source, target, pairs)

    monkeypatch.setattr(engine, "align", refuses_long)
    requests = [translation_request(text, "de", "en") for text in ("ein hund", "long", "zwei hunde")]
    pairs = [(request, request.text) for request in requests]
    results = asyncio.run(CachedEngine(engine, TranslationCache()).aligned(pairs))
    assert [None if words is None else len(words) for words in results] == [2, None, 2]
