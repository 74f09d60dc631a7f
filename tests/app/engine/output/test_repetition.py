"""When a text is said to go round in circles."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from app.engine.output.output_processor import MAX_PERIOD, is_repetitive, most_repeats, repeated_run

WORDS = dict(enumerate(["the", "dog", "sees", "ha", "very", ".", "1", "a", "house", "ja", "”", "la"]))
IDS = {word: token for token, word in WORDS.items()}


def decode(tokens: Sequence[int]) -> str:
    return " ".join(WORDS[token] for token in tokens)


def round_in(text: str, source: str = "", *, at_end: bool = False) -> bool:
    return is_repetitive([IDS[word] for word in text.split()], decode, source, at_end=at_end)


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
def test_repeated_suffix_is_detected(tokens: list[int], expected: int) -> None:
    run = tokens[len(tokens) - expected :]
    assert list(repeated_run(tokens, at_end=True)) == run
    if tokens[-1:] != [1]:
        assert list(repeated_run(tokens)) == run
        for before, behind in (([90, 91], [92]), ([], [*range(60, 90)]), ([*range(60, 83)], [90] * 8)):
            assert list(repeated_run([*before, *tokens, *behind])) == run


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), (" \n", 0), ("ha", 1), ("ha ha ha", 3), ("Ha ha HA!", 3), ("a 1 1 1 1 b", 4), ("abcabcab", 8 / 3)],
)
def test_consecutive_repeats_are_counted(text: str, expected: float) -> None:
    assert most_repeats(text) == pytest.approx(expected)


def test_repetition_is_distinguished_from_a_repetitive_source() -> None:
    assert round_in("the dog sees" + " the dog" * 6, "der hund sieht")
    assert not round_in("the dog sees the house", "der hund sieht das haus")
    assert not round_in("ha " * 12, "ha " * 12)
    assert not round_in("ja " * 20, "ja!" * 10)
    assert round_in("ja " * 21, "ja!" * 10)
    assert not round_in("1 " * 30, "1" * 25)  # as one token in the source
    assert not round_in("very " * 12, "非常" * 8)
    assert not round_in(". " * 14, "Kapitel 1 .............. 7")


def test_text_after_a_repetition() -> None:
    text = "the dog" + " very" * 12
    assert round_in(text, "x")
    assert round_in(text, "x", at_end=True)
    assert round_in(f"{text} the dog sees .", "x")
    assert not round_in(f"{text} .", "x", at_end=True)
    assert not round_in("the dog" + " very" * 11, "x")


def test_random_text_is_not_a_repetition() -> None:
    rng = random.Random(3)
    texts = [[rng.randrange(40) for _ in range(rng.randrange(300))] for _ in range(300)]
    assert not any(repeated_run(text, at_end=True) or repeated_run(text) for text in texts)


def repeats_by_brute_force(tokens: list[int]) -> bool:
    """Brute force: whether some suffix repeats with one period often enough to be a repetition."""
    for period in range(1, MAX_PERIOD + 1):
        alike = 0
        for before, token in zip(tokens, tokens[period:], strict=False):
            alike = alike + 1 if before == token else 0
            if alike + period >= max(4 * period, 12):
                return True
    return False


def test_repetition_equals_brute_force_search() -> None:
    rng, repetitions = random.Random(2), 0
    for _ in range(2000):
        alphabet = rng.choice([1, 2, 3, 9])
        tokens = [rng.randrange(alphabet) for _ in range(rng.randrange(30))]
        tokens += [5, 6, 7][: rng.randrange(4)] * rng.randrange(9)
        tokens += [rng.randrange(9) for _ in range(rng.randrange(9))]
        run = list(repeated_run(tokens))
        assert bool(run) == repeats_by_brute_force(tokens), tokens
        assert not run or (len(run) >= 12 and any(tokens[at : at + len(run)] == run for at in range(len(tokens))))
        repetitions += bool(run)
    assert 500 < repetitions < 1500


def test_long_repeated_parts_are_detected() -> None:
    assert most_repeats("".join(chr(0x4E00 + i % 200) for i in range(4_000))) == 20
    assert most_repeats("".join(chr(0x4E00 + i % 201) for i in range(4_000))) == 1
