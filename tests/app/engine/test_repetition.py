"""When a text is said to go round in circles."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from app.engine.repetition import goes_round, tail, times

WORDS = dict(enumerate(["the", "dog", "sees", "ha", "very", ".", "1", "a", "house", "ja", "”", "la"]))
IDS = {word: token for token, word in WORDS.items()}


def decode(tokens: Sequence[int]) -> str:
    return " ".join(WORDS[token] for token in tokens)


def round_in(text: str, source: str = "", *, finished: bool = False) -> bool:
    return goes_round([IDS[word] for word in text.split()], decode, source, finished=finished)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], 0),
        ([5] * 11, 0),
        ([5] * 12, 12),
        ([1, 2, 5, *[6, 7] * 5], 0),  # often enough, but only 10 tokens
        ([1, 2, 5, *[6, 7] * 6], 12),
        ([1, 2, 5, *[6, 7, 8, 9] * 3], 0),  # 12 tokens, but only 3 times
        ([1, 2, 5, *[6, 7, 8, 9] * 4], 16),
        ([1, 2, 5, *[6, 7, 8, 9] * 4, 6, 7, 8], 19),  # the fifth time was cut off
        ([*[6, 7] * 6, 1], 0),  # it has gone on since
        ([*range(30)] * 4, 120),
        ([*range(31)] * 9, 0),
    ],
)
def test_the_end_that_is_one_run(tokens: list[int], expected: int) -> None:
    found = tail(tokens)
    assert list(found) == tokens[len(tokens) - expected :]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), (" \n", 0), ("ha", 1), ("ha ha ha", 3), ("Ha ha HA!", 3), ("a 1 1 1 1 b", 4), ("abcabcab", 8 / 3)],
)
def test_how_often_a_part_comes_in_a_row(text: str, expected: float) -> None:
    assert times(text) == pytest.approx(expected)


def test_a_text_that_goes_round_is_told_from_one_whose_source_does() -> None:
    assert round_in("the dog sees" + " the dog" * 6, "der hund sieht")
    assert not round_in("the dog sees the house", "der hund sieht das haus")
    assert not round_in("ha " * 12, "ha " * 12)
    assert not round_in("ja " * 20, "ja!" * 10)
    assert round_in("ja " * 21, "ja!" * 10)
    assert not round_in("1 " * 30, "1" * 25)  # as one token in the source
    assert not round_in("very " * 12, "非常" * 8)
    assert not round_in(". " * 14, "Kapitel 1 .............. 7")


def test_behind_what_is_repeated_only_an_end_may_stand() -> None:
    circle = "the dog" + " very" * 12
    assert round_in(circle, "x")
    assert not round_in(f"{circle} . ”", "x")  # it was cut off, and not there
    assert round_in(f"{circle} . ”", "x", finished=True)
    assert not round_in(f"{circle} the dog sees . ”", "x", finished=True)


def test_chance_makes_no_circle() -> None:
    chance = random.Random(3)
    texts = [[chance.randrange(40) for _ in range(chance.randrange(300))] for _ in range(300)]
    assert not any(tail(text) for text in texts)


def test_what_comes_again_may_be_long() -> None:
    assert times("".join(chr(0x4E00 + i % 200) for i in range(4_000))) == 20
    assert times("".join(chr(0x4E00 + i % 201) for i in range(4_000))) == 1
