"""What is said about a translation: loops, low probabilities, unknown words with their places."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.interface import Notice
from app.engine.output.notices import LOW_PROBABILITY, translation_notices
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, DemoCard
from models.decoding.options import Hypothesis
from tests.app.engine.inline_engine import Inline, german_request


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoints: Path) -> Checkpoint:
    return checkpoints.read(tiny_checkpoints / "tiny-de-en")


def hypothesis(mean: float) -> Hypothesis:
    """Three tokens and the end token, with this mean log-probability."""
    return Hypothesis((5, 6, 7), 4 * mean, mean, True)


def codes(checkpoint: Checkpoint, text: str, best: Hypothesis, reason: str = "stop") -> list[str]:
    notices = translation_notices(checkpoint, text, checkpoint.source_ids(text), best, reason)  # type: ignore[arg-type]
    return [notice.code for notice in notices]


def test_low_probability_is_below_the_threshold_only(checkpoint: Checkpoint) -> None:
    assert codes(checkpoint, "der hund", hypothesis(LOW_PROBABILITY + 0.01)) == []
    assert codes(checkpoint, "der hund", hypothesis(LOW_PROBABILITY - 0.01)) == ["low_probability"]
    assert codes(checkpoint, "der hund", hypothesis(LOW_PROBABILITY - 0.01), "repetition") == ["repetition"]
    assert codes(checkpoint, "der hund", hypothesis(math.nan)) == [], "greedy search has no scores"


def test_words_with_characters_that_the_tokenizer_does_not_know(checkpoint: Checkpoint) -> None:
    text = "der Ж☃ hund"
    notices = translation_notices(checkpoint, text, checkpoint.source_ids(text), hypothesis(0.0), "stop")
    assert [(notice.code, text[notice.start : notice.end]) for notice in notices] == [
        ("unknown_words", "Ж"),
        ("unknown_words", "☃"),
    ]
    assert notices[0].message == "“Ж” has characters that tiny-de-en cannot read."


def test_words_outside_a_demo_models_training_text(checkpoint: Checkpoint) -> None:
    demo = replace(checkpoint, demo=DemoCard("", 1, (), "", frozenset({"der", "hund", "strasse"})))
    text = "Der Hund Rex, STRASSE 12!"
    notices = translation_notices(demo, text, demo.source_ids(text), hypothesis(0.0), "stop")
    assert notices == (Notice("unknown_words", "“Rex” is no word that tiny-de-en was trained on.", 9, 12),)


def test_a_looping_translation_has_a_notice(tiny_checkpoints: Path) -> None:
    (circle,) = Inline(tiny_checkpoints).translate(german_request())
    assert [(notice.code, notice.start, notice.end) for notice in circle.notices] == [
        ("repetition", 0, len(german_request().text))
    ]
