"""From a text to its translation: sentences, lengths, groups, tokens and alignments."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.engine.interface import TranslationResult
from app.errors import EngineUnavailable, Overloaded, TextTooLong
from app.translation.driver import Translator
from tests.app.api.fake_engine import translator
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request, translation_request


def translate(engine: WordEngine, text: str, **options: object) -> TranslationResult:
    request = text_request(text, "de", "en", **options)  # type: ignore[arg-type]
    return asyncio.run(Translator(engine).translate([request]))[0]


def test_model_reads_single_sentences_and_the_text_keeps_its_layout() -> None:
    engine = WordEngine(words={"hallo": "hello", "welt": "world"})
    result = translate(engine, "  - Hallo Welt.  Hallo!\r\n\tWelt 😀\n")
    assert result.text == "  - hello world.  hello!\r\n\tworld 😀\n"
    assert engine.source_texts == ["Hallo Welt.", "Hallo!", "Welt"]


def test_texts_of_one_call_are_one_group_of_distinct_sentences() -> None:
    engine = WordEngine()
    requests = [text_request(text, "de", "en") for text in ("Ja. Nein.", " ", "Nein.", "12 😀")]
    results = asyncio.run(Translator(engine).translate(requests))
    assert [result.text for result in results] == ["JA. NEIN.", " ", "NEIN.", "12 😀"]
    assert engine.source_texts == ["Ja.", "Nein."]
    assert engine.groups == [2]
    assert [result.model for result in results] == ["tiny-de-en", "", "tiny-de-en", ""]


@pytest.mark.parametrize("text", ["B", "ÄÖ", "&lt;b&gt; fett &amp; so", "a&nbsp;b"])
def test_case_and_entities_are_kept(text: str) -> None:
    engine = WordEngine(copies=True)
    assert translate(engine, text).text == text
    lower = WordEngine(words={"b": "be quiet"})
    assert translate(lower, "B").text == "be quiet"


def test_options_reach_every_sentence_and_the_prefix_only_the_first() -> None:
    engine = WordEngine()
    options: dict[str, Any] = {
        "beam_size": 2,
        "length_penalty": 0.5,
        "max_new_tokens": 9,
        "no_repeat_ngram_size": 3,
        "model": None,
    }
    result = translate(engine, "Eins da. Zwei da.", prefix="So", alternatives=1, wants=frozenset({"scores"}), **options)
    assert engine.requests == [
        translation_request("Eins da.", prefix="So", alternatives=1, wants=frozenset({"scores"}), **options),
        translation_request("Zwei da.", alternatives=1, wants=frozenset({"scores"}), **options),
    ]
    assert result.text == "So EINS DA. ZWEI DA."
    assert result.alternatives == ("So EINS DA. (1) ZWEI DA. (1)",)
    assert result.scores == (-0.5, -1.5)


def test_tokens_and_alignment_refer_to_the_full_text() -> None:
    text = "\n- Ein Hund.  Der 😀 Hase\tda \n"
    result = translate(WordEngine(backwards=True), text, wants=frozenset({"tokens", "alignment"}))
    assert result.text == "\n- HUND. EIN  HASE DER 😀\tDA \n"
    assert result.tokens is not None
    assert "".join(token.text for token in result.tokens) == result.text
    assert result.alignment is not None
    words = [
        (text[a.source_start : a.source_end], result.text[a.target_start : a.target_end]) for a in result.alignment
    ]
    assert words == [("Hund.", "HUND."), ("Ein", "EIN"), ("Hase", "HASE"), ("Der", "DER"), ("da", "DA")]
    assert (result.usage.read_tokens, result.usage.new_tokens) == (5, 5)


def test_details_that_were_not_requested_are_none() -> None:
    result = translate(WordEngine(), "Ein 😀 Hund")
    assert (result.tokens, result.alignment, result.scores, result.alternatives) == (None, None, None, ())


def test_long_text_is_translated_in_groups() -> None:
    engine = WordEngine()
    chapter = "\n\n".join(
        f"Satz {'x' * (number % 7)} Nummer {number} hier. Und noch einer {number}." for number in range(600)
    )
    assert translate(engine, chapter).text == chapter.upper()
    assert sum(engine.groups) == 1200
    assert max(engine.groups) <= 256
    assert all(len(text) < 60 for text in engine.source_texts)


def test_long_sentence_is_cut_at_clauses() -> None:
    engine = WordEngine(room=10)
    text = "eins zwei drei vier fünf, sechs sieben acht neun zehn, elf zwölf dreizehn vierzehn fünfzehn."
    result = translate(engine, text)
    assert result.text == text.upper()
    assert result.finish_reason == "stop"
    assert all(text.endswith((",", ".")) for text in engine.source_texts)
    assert len(engine.source_texts) > 1


@pytest.mark.parametrize("split", [True, False])
def test_word_of_ten_thousand_letters_loses_nothing(split: bool) -> None:
    engine = WordEngine(room=20)
    result = translate(engine, "Das " + "äb" * 5000 + " hier " * 100, split=split)
    assert result.text == "DAS " + "ÄB" * 5000 + " HIER " * 100
    assert max(engine._tokens(text) for text in engine.source_texts) <= 20


def test_sentence_with_more_tokens_than_bytes_is_counted() -> None:
    class Expanding(WordEngine):
        def _tokens(self, text: str) -> int:
            return 4 * len(text)

    engine = Expanding(room=60)
    assert translate(engine, "eins zwei drei vier fünf").text == "EINS ZWEI DREI VIER FÜNF"
    assert all(len(text) <= 15 for text in engine.source_texts)


def test_model_without_room_for_one_character_refuses() -> None:
    class Full(WordEngine):
        def _tokens(self, text: str) -> int:
            return 100

    with pytest.raises(TextTooLong):
        translate(Full(room=60), "eins zwei")


def test_unfinished_translation_is_repeated_in_halves() -> None:
    engine = WordEngine(ends_after=10)
    text = " ".join(f"Wort{chr(97 + number)}" for number in range(18)) + "."
    result = translate(engine, text)
    assert (result.text, result.finish_reason) == (text.upper(), "stop")
    assert len(engine.source_texts) == 3
    cut = translate(WordEngine(ends_after=10), text, max_new_tokens=10)
    assert (cut.text.split()[-1], cut.finish_reason) == ("WORTJ", "length")
    short = WordEngine(ends_after=1)
    assert translate(short, "Kurz und gut").finish_reason == "length"
    assert len(short.source_texts) == 1


def test_text_reports_its_worst_finish_reason() -> None:
    assert translate(WordEngine(ends_after=1), "Ja. Ja nein.").finish_reason == "length"


def overloaded() -> Overloaded:
    return Overloaded("full", retry_after_s=1)


def test_later_groups_wait_for_room() -> None:
    chapter = " ".join(f"Satz Nummer {number} hier." for number in range(300))
    engine = WordEngine(refusals=[None, overloaded(), None])
    assert translate(engine, chapter).text == chapter.upper()
    with pytest.raises(Overloaded):
        translate(WordEngine(refusals=[overloaded()]), chapter)
    with pytest.raises(EngineUnavailable):
        translate(WordEngine(refusals=[None, EngineUnavailable("gone")]), chapter)


def test_words_apart_are_one_sentence_and_keep_their_spaces() -> None:
    engine = WordEngine()
    assert translate(engine, "ich   möchte    ein bier").text == "ICH   MÖCHTE    EIN BIER"
    assert engine.source_texts == ["ich möchte ein bier"]


@pytest.mark.parametrize(
    ("text", "read", "wanted"),
    [
        ("bier &amp; brot sind gut", "bier & brot sind gut", "BIER &amp; BROT SIND GUT"),
        ("M&auml;nner trinken", "Männer trinken", "MÄNNER TRINKEN"),
        ("das &copy; hier", "das © hier", "DAS &copy; HIER"),
        ("bier &mdash; brot", "bier — brot", "BIER &mdash; BROT"),
        ("20&nbsp;km weg", "20 km weg", "20&nbsp;KM WEG"),
        ("&lt;b&gt;x &amp; y", "x & y", "&lt;b&gt;X &amp; Y"),
    ],
)
def test_references_are_read_as_characters_and_written_as_references(text: str, read: str, wanted: str) -> None:
    engine = WordEngine()
    assert translate(engine, text).text == wanted
    assert engine.source_texts == [read]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("das bier &mdash; ein brot", "DAS BIER &mdash; EIN BROT"),
        ("das bier — ein brot", "DAS BIER — EIN BROT"),
        ("bier &amp; brot", "BIER &amp; BROT"),
        ("bier &copy; 2024 gut", "BIER &copy; 2024 GUT"),
    ],
)
def test_a_sentence_is_translated_in_parts_where_a_dash_or_an_ampersand_is_lost(text: str, wanted: str) -> None:
    assert translate(WordEngine(alter=lambda word: word.strip("—&©")), text).text == wanted


def test_numbers_come_back_where_the_model_runs_into_other_numbers() -> None:
    engine = WordEngine(words={"12.03.2024": "2024", "3": "1000000"})
    result = translate(engine, "wir sind am 12.03.2024, 3 mal, hier").text
    assert result == "WIR SIND AM 12.03.2024, 3 MAL, HIER"
    assert engine.source_texts[1:] == ["wir sind am 17, 42 mal, hier", "wir sind am Anna, Peter mal, hier"]


def test_words_that_a_model_does_not_know_are_copied() -> None:
    known = frozenset({"ich", "heisse", "und", "wohne", "in"})
    words = {"ich": "i", "heiße": "am", "und": "and", "wohne": "live", "in": "in"}
    engine = WordEngine(loaded=[replace(translator("de", "en"), source_words=known)], words=words)
    assert translate(engine, "Ich heiße Bo Ek und wohne in Ulm.").text == "i am Bo Ek and live in Ulm."
    assert translate(WordEngine(words=words), "Ich wohne in Ulm.").text == "i live in ULM.", "no words are recorded"
    others = " ".join(f"und Wort{'abcdefghijklmnop'[n]}" for n in range(14))
    assert translate(engine, others).text.startswith("and WORTA"), "a text of unknown words is left to the model"


@pytest.mark.parametrize(
    "before", ["", "Ich wohne in Kiel.", "Bo Ek, Ulm, Köln und Trier heisse ich. In Wien wohne ich."]
)
def test_sentence_is_translated_alike_whatever_stands_before_it(before: str) -> None:
    """Whose unknown words the model copies: also the fortieth repetition, and behind other unknown words."""
    known = frozenset({"ich", "heisse", "und", "wohne", "in"})
    engine = WordEngine(loaded=[replace(translator("de", "en"), source_words=known)])
    sentence = "Ich heisse Quax und wohne in Ulm."
    alone, alone_before = translate(engine, sentence).text, translate(engine, before).text
    assert alone == "ICH HEISSE Quax UND WOHNE IN Ulm."
    for repetitions in (*range(1, 14), 40):
        text = " ".join([before, *[sentence] * repetitions]).strip()
        wanted = " ".join([alone_before, *[alone] * repetitions]).strip()
        assert translate(engine, text).text == wanted, repetitions


def test_line_end_within_a_sentence_keeps_its_place() -> None:
    text = (
        "> ein Mann und eine Frau sitzen in einem Park und lesen\n> ein Buch, während zwei Hunde im Gras spielen und\n"
        "> Kinder laufen.\n"
    )
    engine = WordEngine()
    assert translate(engine, text).text == text.upper()
    assert len(engine.source_texts) == 1
    assert "\n" not in engine.source_texts[0]
