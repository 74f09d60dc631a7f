"""Terms of a glossary in a text."""

from __future__ import annotations

import time

import pytest

from app.text.glossary_matching import TermMatcher, find_term, holds_term

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


def matched_terms(text: str, terms: dict[str, str] | None = None) -> list[tuple[str, tuple[str, ...]]]:
    return [(text[term.start : term.end], term.forms) for term in TermMatcher(terms or TERMS).find(text)]


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
def test_longest_term_wins_at_each_place(text: str, wanted: list[tuple[str, tuple[str, ...]]]) -> None:
    assert matched_terms(text) == wanted


def test_target_at_sentence_start_may_have_a_capital() -> None:
    assert matched_terms("„Bier schmeckt.", {"bier": "beer"}) == [("Bier", ("beer", "Beer"))]
    assert matched_terms("Das Bier.", {"bier": "beer"}) == [("Bier", ("beer",))]


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
def test_term_matches_complete_words_only(text: str, form: str, at: int) -> None:
    assert find_term(text, form) == at
    assert holds_term(text, ("nowhere", form)) is (at >= 0)


def test_time_for_a_thousand_terms() -> None:
    glossary = TermMatcher({f"word{number} of it": f"Wort{number}" for number in range(1000)} | {"dog": "Hund"})
    sentence = "Two young white males are outside near many bushes with a dog and word7 of it."
    began = time.perf_counter()
    for _ in range(500):
        assert len(glossary.find(sentence)) == 2
    assert (
        time.perf_counter() - began < 10
    )  # no measure of speed: 0.04 ms each, so that looking for each term would show


def test_time_for_terms_with_one_first_word() -> None:
    text = "a " * 1950
    glossaries = [
        {f"a b{number}": "x" for number in range(20_000)},
        {"A " * length + "b": "x" for length in range(1, 400)} | {"a " * length + "b": "x" for length in range(1, 400)},
        {f"{'a ' * length}a b": "x" for length in range(400)},
    ]
    began = time.perf_counter()
    for terms in glossaries:
        assert TermMatcher(terms).find(text) == []
    assert len(TermMatcher(glossaries[0]).find(f"{text} A B19999, a b7.")) == 2
    assert len(TermMatcher({"+": "plus"}).find("+ " * 1950)) == 1950
    assert time.perf_counter() - began < 5  # no measure of speed: 0.1 s; 16 s where each term is looked at


def test_exact_case_wins_and_then_the_first_entry() -> None:
    terms = {"the us": "a", "The US": "b", " the us ": "c", "the us army": "d", "The": "e", "the": "f"}
    assert matched_terms("So The US, the us armynot, The us ARMY, THE, The", terms) == [
        ("The US", ("b",)),
        ("the us", ("a",)),
        ("The us ARMY", ("d",)),
        ("THE", ("f",)),
        ("The", ("e",)),
    ]


def test_letters_with_irregular_lower_case() -> None:
    assert matched_terms("ο ΛΟΓΟΣ μας", {"λογος": "word"}) == [("ΛΟΓΟΣ", ("word",))]
    assert matched_terms("ο ΛΟΓΟΣ μας", {"λογοσ": "word"}) == []
    assert matched_terms("at İzmir, at izmir", {"izmir": "Smyrna"}) == [("izmir", ("Smyrna",))]


def test_empty_glossary_finds_nothing() -> None:
    assert not TermMatcher({})
    assert TermMatcher({}).find("dog") == []
