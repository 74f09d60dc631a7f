"""What is said about a translation: loops, low probabilities, unknown words with their places."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.interface import Notice
from app.engine.output.notices import LOW_PROBABILITY, still_true, translation_notices, untrained_words
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, NoticeRecord
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


@pytest.mark.parametrize("unsure_below", [-0.04 * number for number in range(1, 21)])
def test_a_models_own_threshold_stands_before_the_common_one(checkpoint: Checkpoint, unsure_below: float) -> None:
    own = replace(checkpoint, notices=NoticeRecord(unsure_below))
    assert codes(own, "der hund", hypothesis(unsure_below + 0.01)) == []
    assert codes(own, "der hund", hypothesis(unsure_below - 0.01)) == ["low_probability"]


@pytest.mark.parametrize(
    ("source", "translation", "invented"),
    [
        ("der Hund sieht Rex", "the dog sees Rex", []),
        ("der Hund", "the dog's", []),
        ("der Hund", "The DOG!", []),
        ("der Hund 12", "the dog 12", []),
        ("Annas Hund", "Anna's dog", ["Anna's"]),
        ("der Hund", "the dogger", ["dogger"]),
        ("der Hund", "the dog worksed", ["worksed"]),
        ("Peter Müller", "Peter Füller", ["Füller"]),
        ("der Hund", "husste husste dog", ["husste"]),
        ("der Hund", "eaton the tarmé", ["eaton", "tarmé"]),
        ("der Hund", "the dog—barkig.", ["barkig"]),
        ("der Hund", "«hamar» dog", ["hamar"]),
        ("der Hund", "the Term dog", []),
        ("E-Mail", "the e-mail", []),
        ("der Hund", "the dog-barker", ["dog-barker"]),
        ("der Hund", "", []),
        ("der Hund", "…", []),
        ("der Hund", "a the I", []),
        ("der ХУНД", "the хунд", []),
        ("der Hund", "the собака", ["собака"]),
        ("https://a.example", "the https://a.example dog", []),
        ("der Hund", "pollody knewe", ["pollody", "knewe"]),
    ],
)
def test_words_that_training_never_wrote_are_marked(
    checkpoint: Checkpoint, source: str, translation: str, invented: list[str]
) -> None:
    words = frozenset({"the", "dog", "sees"})
    own = replace(checkpoint, notices=NoticeRecord(source_words=None, target_words=words))
    notices = translation_notices(own, source, (), hypothesis(0.0), "stop", translation, ["Term"])
    assert [notice.message.split("”")[0] for notice in notices] == [f"“{word}" for word in invented]
    assert {(notice.code, notice.start, notice.end) for notice in notices} <= {("invented_words", 0, len(source))}
    assert [notice.word for notice in notices] == invented
    assert still_true(notices, f"«{translation}»") == notices
    assert still_true(notices, " ".join(f"{word}er" for word in invented)) == ()
    assert not translation_notices(checkpoint, source, (), hypothesis(0.0), "stop", translation)


def test_words_with_characters_that_the_tokenizer_does_not_know(checkpoint: Checkpoint) -> None:
    text = "der Ж☃ hund"
    notices = translation_notices(checkpoint, text, checkpoint.source_ids(text), hypothesis(0.0), "stop")
    assert [(notice.code, text[notice.start : notice.end]) for notice in notices] == [
        ("unknown_words", "Ж"),
        ("unknown_words", "☃"),
    ]
    assert notices[0].message == "“Ж” has characters that tiny-de-en cannot read."


def test_words_outside_the_recorded_training_text(checkpoint: Checkpoint) -> None:
    demo = replace(checkpoint, notices=NoticeRecord(source_words=frozenset({"der", "hund", "strasse"})))
    text = "Der Hund Rex, STRASSE 12!"
    notices = translation_notices(demo, text, demo.source_ids(text), hypothesis(0.0), "stop")
    assert notices == (Notice("unknown_words", "“Rex” is no word that tiny-de-en was trained on.", 9, 12),)


def test_a_looping_translation_has_a_notice(tiny_checkpoints: Path) -> None:
    (circle,) = Inline(tiny_checkpoints).translate(german_request())
    assert [(notice.code, notice.start, notice.end) for notice in circle.notices] == [
        ("repetition", 0, len(german_request().text))
    ]


def test_words_of_a_long_sentence_with_a_number_are_found() -> None:
    """The first pattern of `untrained_words` has one way alone to read a text: with several, a number at the end of
    sixty letters had the event loop try all of them for hours."""
    text = "wir trinken heute kein wasser und die katze schläft und xyzzy quux 42"
    found = [text[start:end] for start, end in untrained_words(set(text.split()) - {"quux"}, text)]
    assert found == ["quux"]
