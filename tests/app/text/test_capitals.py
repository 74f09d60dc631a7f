"""Sentences in capital letters, read in lower case and written in capitals again."""

from __future__ import annotations

import pytest

from app.text.capitals import in_capitals, with_capitals, without_capitals


@pytest.mark.parametrize("text", ["ICH MÖCHTE EIN BIER", "ACHTUNG!", "ДОБРОЕ УТРО", "3 BIER FÜR 50 € {name}"])
def test_text_in_capitals(text: str) -> None:
    assert in_capitals(text)


@pytest.mark.parametrize("text", ["UNESCO", "Ich BIN MÜDE UND WILL", "早上好", "https://EXAMPLE.ORG/ABCDEF", ""])
def test_abbreviations_and_other_texts_are_not_in_capitals(text: str) -> None:
    assert not in_capitals(text)


@pytest.mark.parametrize(
    ("text", "language", "lower"),
    [
        ("ICH MÖCHTE {X} UND A380", "de", "Ich möchte {X} und A380"),
        ("„GUTEN TAG“", "de", "„Guten tag“"),
        ("AND I WANT IT", "en", "And I want it"),
        ("BUGÜN IŞIK İYİ", "tr", "Bugün ışık iyi"),
        ("İSTANBUL IS", "en", "İstanbul is"),
    ],
)
def test_offsets_stay_in_lower_case(text: str, language: str, lower: str) -> None:
    assert without_capitals(text, language) == lower
    assert len(lower) == len(text)


def test_links_terms_and_offsets_stay_in_capitals() -> None:
    assert with_capitals("the big dog at https://a.example/b", "en") == "THE BIG DOG AT https://a.example/b"
    assert with_capitals("the iPhone is big", "en", [(4, 10)]) == "THE iPhone IS BIG"
    assert with_capitals("die straße", "de") == "DIE STRAẞE"
    assert with_capitals("iyi ışık", "tr") == "İYİ IŞIK"
    assert with_capitals("sale &nbsp; &amp; more&eacute;", "en") == "SALE &nbsp; &amp; MORE&eacute;"
