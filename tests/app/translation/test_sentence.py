"""Links, placeholders, numbers and terms are in the translation, whatever the model writes."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.interface import TranslationResult
from app.errors import Overloaded
from app.text.protected_spans import protected_spans
from app.translation.driver import Translator
from tests.app.api.fake_engine import translator
from tests.app.translation.word_engine import WordEngine, with_reload
from tests.request_builders import text_request


def translate(engine: WordEngine, text: str, **options: object) -> TranslationResult:
    request = text_request(text, "de", "en", **options)  # type: ignore[arg-type]
    return asyncio.run(Translator(engine).translate([request]))[0]


def without_symbols(word: str) -> str:
    """As a model that knows neither links nor placeholders nor digits."""
    return re.sub(r"[\d{}%$/@<>&]", "", word)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Besuche https://x.org/a?b=1 heute.", "BESUCHE https://x.org/a?b=1 HEUTE."),
        ("Besuche heute https://x.org.", "BESUCHE HEUTE https://x.org."),
        ("{name}, du bist da.", "{name}, DU BIST DA."),
        ("Hallo {name}, du bist da.", "HALLO {name}, DU BIST DA."),
        ("Das (siehe www.x.org) ist %d gut %s da", "DAS (SIEHE www.x.org) IST %d GUT %s DA"),
        ("Ein Wort ({0}) hier", "EIN WORT ({0}) HIER"),
        ("Schreib a.b@x.org bald", "SCHREIB a.b@x.org BALD"),
    ],
)
def test_broken_links_and_placeholders_are_repaired(text: str, wanted: str) -> None:
    engine = WordEngine(alter=without_symbols)
    assert translate(engine, text).text == wanted
    assert len(engine.source_texts) == 4, "two kinds of stand-ins, required ones, none"
    assert not any(map(protected_spans, engine.source_texts))


def test_tags_beside_words_are_set_beside_their_translations() -> None:
    assert translate(WordEngine(), "Ein <0>Hund</0> hier").text == "EIN <0>HUND</0> HIER"


def test_copied_stand_ins_need_one_request() -> None:
    engine = WordEngine()
    assert translate(engine, "Siehe https://x.org {name} 17 da").text == "SIEHE https://x.org {name} 17 DA"
    assert engine.source_texts == ["Siehe 42 17 da"]
    assert "alignment" not in engine.requests[0].options.wants  # type: ignore[attr-defined]


def test_parts_around_a_sign_that_the_model_loses() -> None:
    """ "=" is read by the model, no island: the check at the end misses it."""
    text = "Ein Hund = eine Katze heute"
    result = translate(WordEngine(alter=lambda word: word.replace("=", "")), text)
    assert result.text == "EIN HUND = EINE KATZE HEUTE"
    assert [notice.code for notice in result.notices] == ["translated_in_parts"]


def test_a_mark_before_a_placeholder_is_put_back() -> None:
    engine = WordEngine(alter=lambda word: word.replace(":", ""))
    assert translate(engine, "Danke: {name}!").text == "DANKE: {name}!"


def test_link_written_twice_is_repaired() -> None:
    engine = WordEngine(words={"{name}": "{name} {name}"})
    assert translate(engine, "Hallo {name} da").text == "HALLO {name} DA"


def test_links_follow_the_word_order() -> None:
    engine = WordEngine(alter=without_symbols, backwards=True)
    assert translate(engine, "eins zwei https://x.org drei vier").text == "VIER DREI ZWEI https://x.org EINS"


@pytest.mark.parametrize(
    ("text", "words", "wanted"),
    [
        ("Es kostet 1.000,50 Euro", {"1.000,50": "1,000.50"}, "ES KOSTET 1,000.50 EURO"),
        ("Es kostet 250 Euro", {"250": "25"}, "ES KOSTET 250 EURO"),
        ("Von 1990 bis 2010", {"1990": "2010", "2010": "1990"}, "VON 2010 BIS 1990"),
        ("Von 1990 bis 2010", {"1990": "2010"}, "VON 1990 BIS 2010"),
        ("Von 1990 bis 2010", {"1990": "", "2010": ""}, "VON 1990 BIS 2010"),
        ("Es sind 2 Hunde", {"2": "two"}, "ES SIND two HUNDE"),
        ("Es sind 2 Hunde", {"2": "3"}, "ES SIND 2 HUNDE"),
        ("Es sind zwanzig Hunde", {"zwanzig": "20"}, "ES SIND 20 HUNDE"),
        ("Es sind 40 😀 Hunde", {"40": "fourty"}, "ES SIND 40 😀 HUNDE"),
    ],
)
def test_lost_numbers_are_put_back(text: str, words: dict[str, str], wanted: str) -> None:
    result = translate(WordEngine(words=words), text, wants=frozenset({"tokens"})).text
    assert result.replace("fourty ", "") == wanted


def test_empty_translation_becomes_the_source() -> None:
    engine = WordEngine(words={"こんにちは": ""})
    request = frozenset({"tokens"})
    result = translate(engine, "Ja.\nこんにちは\u3000Nein 😀", wants=request)
    assert result.text == "JA.\nこんにちは\u3000NEIN 😀"
    assert result.tokens is not None
    assert "".join(token.text for token in result.tokens) == result.text


GLOSSARY = {"hund": "canine", "rotes haus": "crimson house", "NASA": "Nasa"}


@pytest.mark.parametrize("writes_terms", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
@pytest.mark.parametrize("aligns", [True, False])
def test_every_translation_contains_its_terms(writes_terms: bool, backwards: bool, aligns: bool) -> None:
    engine = WordEngine(writes_terms=writes_terms, backwards=backwards, aligns=aligns, terms={"hund": ("canine",)})
    text = "Der Hund läuft. Ein rotes Haus, ein Hund. Hunde. NASA hier. Hund!"
    result = translate(engine, text, glossary=GLOSSARY).text
    sentences = (
        [sentence.lower() for sentence in re.split(r"(?<=[.!]) ", result)] if not backwards else [result.lower()]
    )
    assert result.lower().count("canine") == 3
    assert "crimson house" in result.lower()
    assert "Nasa" in result
    if aligns:
        assert not re.search(r"\bhund\b|rotes haus", result.lower())
    assert any("hunde" in sentence for sentence in sentences)
    assert ("canine",) in [forms for request in engine.requests for forms in request.required]  # type: ignore[attr-defined]


def test_term_replaces_its_words() -> None:
    engine = WordEngine(writes_terms=False)
    assert translate(engine, "Das ist ein rotes Haus.", glossary=GLOSSARY).text == "DAS IST EIN crimson house."
    assert translate(engine, "Der Hund (groß) da", glossary={"groß": "large 2"}).text == "DER HUND (large 2) DA"
    assert translate(WordEngine(writes_terms=False), "Hund da", glossary=GLOSSARY).text == "Canine DA"


def test_tokens_and_alignment_match_the_repaired_text() -> None:
    text = "Der Hund sieht 250 https://x.org da."
    engine = WordEngine(writes_terms=False, alter=without_symbols)
    result = translate(engine, text, glossary=GLOSSARY, wants=frozenset({"tokens", "alignment"}))
    assert result.text == "DER canine SIEHT 250 https://x.org DA."
    assert result.tokens is not None
    assert "".join(token.text for token in result.tokens) == result.text
    assert result.alignment is not None
    words = [
        (text[a.source_start : a.source_end], result.text[a.target_start : a.target_end]) for a in result.alignment
    ]
    assert ("Hund", "canine") in words
    assert ("da.", "DA.") in words


def test_alternatives_that_lose_something_are_dropped() -> None:
    class Losing(WordEngine):
        def _translation(self, request):  # type: ignore[no-untyped-def]
            from dataclasses import replace

            result = super()._translation(request)
            return replace(result, alternatives=("OHNE {} 7", "MIT 17 250"), scores=(-1.0, -2.0, -3.0))

    engine = Losing()
    result = translate(engine, "Mit {name} 250 da", alternatives=2, wants=frozenset({"scores"}))
    assert result.alternatives == ("MIT {name} 250",)
    assert result.scores == (-1.0, -3.0)


WORDS = ["Haus", "hund", "groß,", "ja", "x"]
KEPT = ["https://x.org/a", "{name}", "%s", "a@b.org", "<0>", ":smile:", "$HOME", "www.y.de"]
NUMBERS = ["2500", "1.000,50", "77", "2026", "19"]


@settings(max_examples=16, deadline=None)
@given(st.lists(st.sampled_from(WORDS + KEPT + NUMBERS + ["😀", "\t"]), min_size=1, max_size=10), st.booleans())
def test_everything_protected_is_in_the_translation(parts: list[str], backwards: bool) -> None:
    text = "Wort " + " ".join(parts) + " Ende."
    engine = WordEngine(alter=without_symbols, backwards=backwards, writes_terms=False)
    result = translate(engine, text, glossary={"hund": "canine"}).text
    assert Counter(span.key for span in protected_spans(result)) == Counter(span.key for span in protected_spans(text))
    for number in NUMBERS:
        assert len(re.findall(rf"(?<!\S){re.escape(number)}(?!\S)", result)) == parts.count(number)
    assert ("canine" in result.lower()) is ("hund" in parts)  # with a capital where it begins the sentence


def test_stand_ins_are_tried_once_and_recorded_with_the_model() -> None:
    """A model of capitals copies numbers and codes, and no names."""
    engine = WordEngine(loaded=[replace(translator("de", "en"), stand_ins={})])

    async def both() -> list[TranslationResult]:
        run = Translator(engine)
        texts = [text_request(text, "de", "en") for text in ("Siehe https://x.org da", "Siehe {name} da")]
        return [*await run.translate(texts), *await Translator(engine).translate(texts)]

    assert {result.text for result in asyncio.run(both())} == {"SIEHE https://x.org DA", "SIEHE {name} DA"}
    (kinds,) = engine.loaded[0].stand_ins.values()
    assert set(kinds) == {"numbers", "codes", "letters"}
    assert engine.source_texts.count("Guten Morgen, X1!") == 1
    with_reload(engine)
    engine.loaded = [replace(model, stand_ins={}) for model in engine.loaded]
    translate(engine, "Siehe https://x.org da")
    assert engine.source_texts.count("Guten Morgen, X1!") == 2, "of another version"


def test_other_stand_ins_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is full when the sentence is translated again with other stand-ins."""
    engine = WordEngine()
    translate_words = engine.translate
    calls = 0

    async def full_at_second_call(requests):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Overloaded("full", retry_after_s=1)
        results = await translate_words(requests)
        return [type(result)(result.text.replace("17", "18"), (), "stop", result.model) for result in results]

    monkeypatch.setattr(engine, "translate", full_at_second_call)
    assert "http://a.example/b" in translate(engine, "see http://a.example/b now").text
    assert calls >= 3


def test_sentence_in_capitals_is_read_in_lower_case() -> None:
    engine = WordEngine(words={"der": "the", "hund": "dog", "schläft": "sleeps"})
    request = text_request("DER HUND 😀 SCHLÄFT", "de", "en", wants=frozenset({"alignment", "tokens"}), alternatives=1)
    (result,) = asyncio.run(Translator(engine).translate([request]))
    assert engine.source_texts == ["Der hund schläft"]
    assert result.text == "THE DOG 😀 SLEEPS"
    assert [text.replace(" 😀", "") for text in result.alternatives] == ["THE DOG SLEEPS (1)"]
    assert "".join(token.text for token in result.tokens or ()) == result.text
    words = [(result.text[w.target_start : w.target_end], w.source_start) for w in result.alignment or ()]
    assert words == [("THE", 0), ("DOG", 4), ("SLEEPS", 11)]
    assert translate(engine, "Der Hund\nDER HUND").text == "the dog\nTHE DOG"


def test_prefix_is_written_as_it_is_for_a_sentence_in_capitals() -> None:
    assert translate(WordEngine(words={"hund": "dog"}), "HUND SCHLÄFT", prefix="Our").text.startswith("Our dog")


def test_number_written_as_a_part_of_a_word_is_replaced_with_it() -> None:
    engine = WordEngine(words={"875,99": "eleven5", "€": ""})
    assert translate(engine, "Hund 875,99 € da").text == "HUND 875,99 € DA"


def test_wrong_number_is_replaced_with_the_digits_joined_to_it() -> None:
    engine = WordEngine(words={"14.04.1979": "14.04.197"})
    assert translate(engine, "Am 14.04.1979 da").text == "AM 14.04.1979 DA"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Name: ____ Ort: ____", "NAME: ____ ORT: ____"),
        ("Name:", "NAME:"),
        ("Danke: {a} morgen: {b}", "DANKE: {a} MORGEN: {b}"),
        ("Danke, {a} morgen; {b}", "DANKE, {a} MORGEN; {b}"),
    ],
)
def test_marks_before_placeholders_and_blanks_come_back_once(text: str, wanted: str) -> None:
    def without_marks(word: str) -> str:
        return word.rstrip(":;,") or word

    assert translate(WordEngine(alter=without_marks), text).text == wanted
    assert translate(WordEngine(), text).text == wanted


@pytest.mark.parametrize("alter", [str, without_symbols])
def test_number_of_a_plural_is_a_placeholder(alter: Callable[[str], str]) -> None:
    text = "Du hast {count, plural, one {# Hund} other {viele, # Hunde}}."
    wanted = "DU HAST {count, plural, one {# HUND} other {VIELE, # HUNDE}}."
    assert translate(WordEngine(alter=alter), text).text == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Der Hund (die Katze) schläft.", "DER HUND (DIE KATZE) SCHLÄFT."),
        ("Der Hund -- die Katze -- schläft.", "DER HUND -- DIE KATZE -- SCHLÄFT."),
        ("(Der Hund schläft.)", "(DER HUND SCHLÄFT.)"),
    ],
)
def test_lost_brackets_and_double_hyphens_part_a_sentence(text: str, wanted: str) -> None:
    def without_signs(word: str) -> str:
        return word if word.isalpha() else re.sub(r"[()]|--", "", word)

    result = translate(WordEngine(alter=without_signs), text)
    assert result.text == wanted
