"""Emphasis and links of plain text, and their place in a translation."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.engine.interface import TranslationResult
from app.text.inline_markup import markup_of, placed_signs
from app.text.tag_placement import AlignedSpan
from app.translation.driver import Translator
from app.translation.segments import segmented
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request


def translate(engine: WordEngine, text: str, **options: object) -> TranslationResult:
    request = text_request(text, "de", "en", **options)  # type: ignore[arg-type]
    return asyncio.run(Translator(engine).translate([request]))[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("**a** und *b* _c_ __d__ ~~e~~", ["a", "b", "c", "d", "e"]),
        ("***a*** und **b *c* d**", ["a", "b *c* d", "c"]),
        ('[a b](https://x.y/z_(w)) ![c](d.png "e")', ["a b", "c"]),
        ("**[a](b)**", ["[a](b)", "a"]),
        ("a*b*c, 2 * 3 * 4, snake_case_name, `a *b* c`, \\*d\\*, [1] und [x] (y) ** z **", []),
    ],
)
def test_words_within_signs(text: str, wanted: list[str]) -> None:
    assert [text[slice(*markup.words)] for markup in markup_of(text)] == wanted


def test_signs_are_set_around_the_words_aligned_with_theirs() -> None:
    source = "Ein **kleiner *Hund* da** läuft [zum Haus](https://a.example/b_c) und ![Ball](b.png)."
    engine = WordEngine()
    assert translate(engine, source).text == (
        "EIN **KLEINER *HUND* DA** LÄUFT [ZUM HAUS](https://a.example/b_c) UND ![BALL](b.png)."
    )
    assert engine.source_texts == ["Ein kleiner Hund da läuft zum Haus und Ball."]
    assert translate(WordEngine(backwards=True), "Ein **Hund** da [dort](u)").text == "[DORT](u) DA **HUND** EIN"


def test_alignment_and_tokens_have_the_signs() -> None:
    result = translate(WordEngine(), "Ein **Hund** 😀 da", wants=frozenset({"alignment", "tokens"}))
    assert result.text == "EIN **HUND** 😀 DA"
    assert "".join(token.text for token in result.tokens or ()) == result.text
    words = [(result.text[word.target_start : word.target_end], word.source_start) for word in result.alignment or ()]
    assert words == [("EIN", 0), ("HUND", 6), ("DA", 15)]


def test_link_whose_words_are_lost_is_written_with_its_own_and_an_emphasis_is_on_the_word_in_its_place() -> None:
    engine = WordEngine(words={"hier": ""})
    assert translate(engine, "Der *hier* Hund [hier](u) da").text == "DER *HUND* [hier](u) DA"


@pytest.mark.parametrize(
    ("translation", "at", "sign"),
    [
        ("the dog, yes", len("the dog"), " [Xyz](u)"),
        ("the dog yes", len("the dog "), "[Xyz](u) "),
        ("the dog", len("the dog"), " [Xyz](u)"),
        ("狗，是", 1, "[Xyz](u)"),
    ],
)
def test_link_whose_words_are_lost_has_spaces_where_words_have_some(translation: str, at: int, sign: str) -> None:
    source, clean = "Der Hund [Xyz](u), ja", "Der Hund Xyz, ja"
    ours = {"dog": 4, "狗": 4, ",": 12, "，": 12, "yes": 14, "是": 14}  # word -> its source's start in `clean`
    words = [
        AlignedSpan(begin := translation.find(word), begin + len(word), start, start + 1)
        for word, start in ours.items()
        if word in translation
    ]
    in_clean = {10: 9, 13: 12}.__getitem__
    assert list(placed_signs(source, clean, markup_of(source), in_clean, translation, words)) == [(at, sign)]


def test_sign_around_several_sentences_stays_at_their_edges() -> None:
    assert segmented("**Der Hund. Die Katze.**", "de").pieces == ["Der Hund.", "Die Katze."]
    assert translate(WordEngine(), "**Der Hund. Die Katze.**").text == "**DER HUND. DIE KATZE.**"


@pytest.mark.parametrize("pattern", ["*a ", "**a ", "[a", "[a](b", "_a_ ", "*", "**a** ", "~~", "![", "a](", "[a](b) "])
def test_time_is_linear_in_the_length_of_the_text(pattern: str) -> None:
    began = time.process_time()
    markup_of((pattern * 100_000)[:100_000])
    assert time.process_time() - began < 20  # no measure of speed: time that grows with the square takes minutes
