"""Which characters a text has, and which of them are odd."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.corpus_statistics import count_characters, inventory, oddity, scripts


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)))))
def test_character_counts(texts: list[str]) -> None:
    assert count_characters(texts) == Counter("".join(texts))


@pytest.mark.parametrize(
    ("character", "kind"),
    [
        ("\t", "control"),
        ("\r", "control"),
        ("\u200b", "invisible"),
        ("\u00ad", "invisible"),
        ("\ufeff", "invisible"),
        ("\u00a0", "unusual space"),
        ("\u2028", "line separator"),
        ("\ue000", "private use"),
        ("\ufffd", "not decodable"),
        *[(character, None) for character in " \n\u3000aß字!’„😀"],
    ],
)
def test_odd_characters_are_classified(character: str, kind: str | None) -> None:
    assert oddity(character) == kind


def test_scripts_follow_the_letters() -> None:
    assert scripts(Counter("abc мир 日本 ひ 12!")) == {"latin": 3, "cyrillic": 3, "cjk": 2, "hiragana": 1}


def test_an_inventory() -> None:
    text = "aaaa bbb\u00a0c\u200b\u200b"
    assert inventory(Counter(text), lambda character: str(text.index(character))) == {
        "characters": 12,
        "distinct": 6,
        "scripts": {"latin": 8},
        "odd": [
            {"character": "U+200B ZERO WIDTH SPACE", "kind": "invisible", "count": 2, "first": "10"},
            {"character": "U+00A0 NO-BREAK SPACE", "kind": "unusual space", "count": 1, "first": "8"},
        ],
        "odd_count": 2,
        "rare": " c",
        "rare_count": 2,
    }
