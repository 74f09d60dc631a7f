"""Words, which alignment links and which offsets count code points of."""

from __future__ import annotations

import pytest

from app.engine.interface import Token
from app.engine.output.token_views import with_word_numbers, word_spans


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ich möchte, bitte", ["ich", "möchte", ",", "bitte"]),
        ("ich mo\u0308chte e\u0301te\u0301", ["ich", "mo\u0308chte", "e\u0301te\u0301"]),  # accents of their own
        ("geht's well-known d’Arc 'x'", ["geht's", "well-known", "d’Arc", "'", "x", "'"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),  # vowel signs
        ("می\u200cخواهم", ["می\u200cخواهم"]),  # a joiner that joins nothing is within its word
        ("\u200bich\u200bmag", ["ich", "mag"]),
        ("\ufeffich", ["ich"]),
        ("我爱か\u3099x", ["我", "爱", "か\u3099", "x"]),
        ("a_b ☃\ufe0f!", ["a", "_", "b", "☃\ufe0f", "!"]),
        ("\u0301", []),
        ("👍🏽 ja", ["👍🏽", "ja"]),
        ("", []),
    ],
)
def test_word_spans(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


def test_a_token_belongs_to_the_first_word_that_it_has_a_part_of() -> None:
    text = "ich \u200b mo\u0308chte"
    places = [(0, 2), (2, 3), (3, 4), (4, 8), (8, 11), (11, 13), (5, 5)]
    tokens = [Token(5, "", text[start:end], start, end, special=False) for start, end in places]
    assert [token.word for token in with_word_numbers(tokens, text)] == [0, 0, None, 1, 1, 1, None]


def test_language_token_is_not_a_word() -> None:
    text, places = ">>deu<< the cat", [(0, 7), (8, 11), (12, 15)]
    tokens = [Token(5, text[start:end], text[start:end], start, end, special=False) for start, end in places]
    assert [token.word for token in with_word_numbers(tokens, text)] == [None, 0, 1]
    assert [token.word for token in with_word_numbers(tokens[1:], text)] == [
        5,
        6,
    ]  # elsewhere it is text like any other
