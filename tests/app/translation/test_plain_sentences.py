"""The quick test for plain sentences changes no result."""

from __future__ import annotations

import random
from unittest.mock import patch

import pytest

from app.engine.interface import TranslationOptions
from app.translation.reading import Reading, Sentence
from app.translation.segments import SegmentedText, one_plain_sentence, segmented

LANGUAGES = ("de", "en", "fr", "es", "el", "ru", "zh", "ja", "hi", "my", "xx")
WORDS = (
    *("z", "Dr", "St", "Nr", "bzw", "p", "I", "a", "ist", "the", "www", "l'a", "d’une", "Herr-Frau", "Émile", "usw"),
    *("-", "'", ",", "ÿ", "А", "я", "-,", "ſ"),
)


@pytest.mark.parametrize(
    "text", ["Zwei Hunde spielen, im Schnee.", "Was ist das?", "l'été", "Привет", "a", "No.", "x -"]
)
def test_plain_sentences(text: str) -> None:
    assert one_plain_sentence(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " a", "a ", "a  b", "a.b", "a. b", "a..", "a 1", "a: b", "a@b.de", "a\nb", "a\tb", "a)", "- a", "%s a"),
        *("a\u00a0b", "a\u200bb", "a\u00adb", "a 😀", "你好", "a؟ b", "a\n", "<b>a", "$a", "{a}", "a;", "°", ".", "'a"),
    ],
)
def test_other_texts_are_not_plain(text: str) -> None:
    assert not one_plain_sentence(text)


def ways(text: str, language: str) -> tuple[SegmentedText, Reading]:
    return segmented(text, language), Reading.of(Sentence(text, TranslationOptions("ru", "en")), "numbers")


def test_quick_test_changes_no_result() -> None:
    """Of texts made of whatever it takes, abbreviations among them."""
    rng = random.Random(7)
    seen = 0
    for _ in range(1500):
        words = " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))
        text, language = words + rng.choice(("", ".", "!", "?")), rng.choice(LANGUAGES)
        if not one_plain_sentence(text):
            continue
        seen += 1
        short = ways(text, language)
        with patch("app.translation.segments.one_plain_sentence", return_value=False):
            assert ways(text, language) == short, text
    assert seen > 700
