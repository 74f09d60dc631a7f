"""Terms of a glossary in a text."""

from __future__ import annotations

import time

import pytest

from app.text.glossary import Glossary, find_term, holds_term

TERMS = {
    "dog": "Hund",
    "dog house": "Hundehütte",
    "NASA": "Nasa",
    "c++": "C++",
    "啤酒": "beer",
    "iPhone": "iPhone",
    " spaced ": " gesperrt ",
    "": "x",
    "gone": " ",
}


def found(text: str, terms: dict[str, str] | None = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(text[each.start : each.end], each.forms) for each in Glossary(terms or TERMS).find(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a dog, a DOG and hotdogs or dogs", [("dog", ("Hund",)), ("DOG", ("Hund",))]),
        ("the dog house dog", [("dog house", ("Hundehütte",)), ("dog", ("Hund",))]),
        ("NASA but not nasa, iPhone but not iphone", [("NASA", ("Nasa",)), ("iPhone", ("iPhone",))]),
        ("write c++ or c+++", [("c++", ("C++",)), ("c++", ("C++",))]),
        ("我想要啤酒。", [("啤酒", ("beer",))]),
        ("spaced and gone", [("spaced", ("gesperrt",))]),
        ("dog_house dog-house", [("dog", ("Hund",))]),
    ],
)
def test_terms_are_found_as_words_the_longest_first(text: str, wanted: list[tuple[str, tuple[str, ...]]]) -> None:
    assert found(text) == wanted


def test_at_the_beginning_of_a_sentence_the_target_may_have_a_capital() -> None:
    assert found("„Bier schmeckt.", {"bier": "beer"}) == [("Bier", ("beer", "Beer"))]
    assert found("Das Bier.", {"bier": "beer"}) == [("Bier", ("beer",))]


@pytest.mark.parametrize(
    ("text", "form", "at"),
    [
        ("a beer.", "beer", 2),
        ("beers, beer", "beer", 7),
        ("beers", "beer", -1),
        ("一杯啤酒。", "啤酒", 2),
        ("", "beer", -1),
    ],
)
def test_a_term_stands_as_a_word_of_its_own(text: str, form: str, at: int) -> None:
    assert find_term(text, form) == at
    assert holds_term(text, ("nowhere", form)) is (at >= 0)


def test_a_thousand_terms_cost_little() -> None:
    glossary = Glossary({f"word{number} of it": f"Wort{number}" for number in range(1000)} | {"dog": "Hund"})
    sentence = "Two young white males are outside near many bushes with a dog and word7 of it."
    began = time.perf_counter()
    for _ in range(500):
        assert len(glossary.find(sentence)) == 2
    assert (
        time.perf_counter() - began < 10
    )  # no measure of speed: 0.04 ms each, so that looking for each term would show


def test_an_empty_glossary_finds_nothing() -> None:
    assert not Glossary({})
    assert Glossary({}).find("dog") == []
