"""Streamed texts: sentences in order, and the same text as without a stream."""

from __future__ import annotations

import asyncio

import pytest

from app.engine.interface import TranslationResult
from app.errors import EngineUnavailable, Overloaded
from app.translation import TextRequest
from app.translation.cached_engine import TranslationCache
from app.translation.driver import Translator
from tests.app.translation.test_sentence import without_symbols
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request


async def shown(translator: Translator, request: TextRequest) -> tuple[list[str], TranslationResult]:
    async with translator.stream(request) as stream:
        return [delta.text async for delta in stream.deltas()], stream.result


def stream(engine: WordEngine, text: str, **options: object) -> tuple[list[str], TranslationResult]:
    return asyncio.run(shown(Translator(engine), text_request(text, "de", "en", **options)))  # type: ignore[arg-type]


def test_streamed_parts_join_to_the_text() -> None:
    texts, result = stream(WordEngine(), "  Ein Hund.\n\nEin Haus. 😀 ")
    assert "".join(texts) == result.text == "  EIN HUND.\n\nEIN HAUS. 😀 "
    assert texts[0] == "  E"
    assert len(texts) > 8


def test_sentences_are_shown_in_order() -> None:
    engine = WordEngine(delays={"Eins ist da.": 3000})
    texts, result = stream(engine, "Eins ist da. Zwei ist da. Drei ist da.")
    assert engine.source_texts == ["Zwei ist da.", "Drei ist da.", "Eins ist da."]
    assert "".join(texts) == result.text == "EINS IST DA. ZWEI IST DA. DREI IST DA."


def test_sentences_that_may_need_repair_are_shown_complete() -> None:
    engine = WordEngine(alter=without_symbols, writes_terms=False)
    text = "Ein Wort. Siehe https://x.org 😀 da. Der Hund. Zwei."
    texts, result = stream(engine, text, glossary={"hund": "canine"})
    assert "".join(texts) == result.text == "EIN WORT. SIEHE https://x.org 😀 DA. DER canine. ZWEI."
    assert not any("HTT" in part for part in texts)
    whole = asyncio.run(Translator(engine).translate([text_request(text, "de", "en", glossary={"hund": "canine"})]))[0]
    assert whole.text == result.text


@pytest.mark.parametrize("text", ["", " \n", "12 😀"])
def test_text_without_words_is_shown_unchanged(text: str) -> None:
    engine = WordEngine()
    texts, result = stream(engine, text)
    assert ("".join(texts), result.text, engine.source_texts) == (text, text, [])


def test_refusal_is_raised_before_anything_is_shown() -> None:
    with pytest.raises(Overloaded):
        stream(WordEngine(refusals=[Overloaded("full", retry_after_s=1)]), "\n Ein Hund. Ein Haus.")


def test_later_failure_is_raised_after_the_sentences_before_it() -> None:
    async def run() -> list[str]:
        texts: list[str] = []
        with pytest.raises(EngineUnavailable):
            async with Translator(engine).stream(text_request("Ein Hund. Ein Haus.", "de", "en")) as opened:
                async for delta in opened.deltas():
                    texts += [delta.text]
        return texts

    engine = WordEngine(refusals=[None, EngineUnavailable("gone")])
    assert "".join(asyncio.run(run())) == "EIN HUND."


def test_later_sentences_of_a_stream_wait_for_room() -> None:
    engine = WordEngine(refusals=[None, Overloaded("full", retry_after_s=1), None])
    texts, result = stream(engine, "Ein Hund. Ein Haus.")
    assert "".join(texts) == result.text == "EIN HUND. EIN HAUS."


def test_sentence_with_an_empty_translation_is_shown_as_its_source() -> None:
    texts, result = stream(WordEngine(words={"oje": ""}), "Ein Hund.\nOje\nEin Haus.")
    assert "".join(texts) == result.text == "EIN HUND.\nOje\nEIN HAUS."


def test_closed_stream_cancels_the_translation() -> None:
    async def run() -> int:
        before = len(asyncio.all_tasks())
        async with Translator(WordEngine()).stream(text_request("Ein Hund. " * 100, "de", "en")) as opened:
            await opened.taken()
        await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - before

    assert asyncio.run(run()) == 0


def test_cached_sentences_are_shown_at_once() -> None:
    engine = WordEngine()
    translator = Translator(engine, TranslationCache(1_000_000))
    request = text_request("Ein Hund. Ein Haus.", "de", "en")
    asyncio.run(translator.translate([request]))
    texts, result = asyncio.run(shown(translator, request))
    assert "".join(texts) == result.text == "EIN HUND. EIN HAUS."
    assert len(engine.source_texts) == 2


def test_sentences_of_a_long_text_begin_in_turn() -> None:
    """Thousands of tasks that began at once would hold the event loop; the first one waits for its answer here."""
    text = "Der Erste wartet. " + " ".join(f"Satz Nummer {number} folgt." for number in range(500))
    engine, most = WordEngine(delays={"Der Erste wartet.": 2000}), 0

    async def run() -> str:
        nonlocal most
        work = asyncio.create_task(shown(Translator(engine), text_request(text, "de", "en")))
        while not work.done():
            most = max(most, len(asyncio.all_tasks()))
            await asyncio.sleep(0)
        return (await work)[1].text

    assert (
        asyncio.run(run()) == asyncio.run(Translator(WordEngine()).translate([text_request(text, "de", "en")]))[0].text
    )
    assert most < 200
