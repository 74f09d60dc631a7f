"""The conversation sentences of the demo translators, and the test sentences that they must not contain."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest

from training.demo import conversation
from training.demo.constructions import Dice
from training.demo.conversation_slots import Draws, random_word
from training.demo.demo_models import demo_card, phrase_pairs
from training.demo.first_sentences import first_sentences, without_punctuation

DIRECTIONS = [("de", "en"), ("en", "es")]
CONVERSATION = (
    "5646c88990c3ba9e1359688c6be117a5355d77e4dadbfe4321f1ec5e4370675c"  # sha256 of 500 pairs, German to English
)


@pytest.fixture(scope="module", params=DIRECTIONS, ids="-".join)
def drawn(request: pytest.FixtureRequest) -> tuple[str, str, list[tuple[str, str]]]:
    source, target = request.param
    return source, target, conversation.pairs(source, target, 4000)


def test_a_source_has_one_translation_and_no_open_slot(drawn: tuple[str, str, list[tuple[str, str]]]) -> None:
    _, _, pairs = drawn
    assert len(pairs) == 4000
    assert len(dict(pairs)) == len(set(pairs)) > 3600
    assert max(Counter(source for source, _ in pairs).values()) <= conversation.MOST_REPEATS
    assert not [pair for pair in pairs if re.search(r"[{}_]|  | [,.?!]", "|".join(pair))]


def test_a_translation_has_the_style_of_its_source(drawn: tuple[str, str, list[tuple[str, str]]]) -> None:
    """Full stops, question marks and lower case alike; Spanish questions and exclamations have two marks."""
    _, target, pairs = drawn
    for source, translation in pairs:
        assert (source[-1] in ".?!") == (translation[-1] in ".?!"), (source, translation)
        assert translation.islower() or not source.islower(), (source, translation)
        if target == "es":
            assert translation.count("¿") == (translation[-1] == "?"), translation
            assert translation.count("¡") == (translation[-1] == "!"), translation


def test_numbers_and_unknown_names_are_copied(drawn: tuple[str, str, list[tuple[str, str]]]) -> None:
    _, _, pairs = drawn
    copied = 0
    for source, translation in pairs:
        if name := re.search(r"^(?:Hallo|Hello) ((?!Welt|world)[A-Z][a-zß-ÿ]+)[,!]", source):
            assert name[1] in translation, (source, translation)
            copied += 1
        for number in re.findall(r"\b\d{2,}\b", source):
            assert number in translation, (source, translation)
    assert copied > 10


def test_articles_and_adjectives_agree() -> None:
    dice = Dice("agreement")
    seen = {"feminine": 0, "masculine": 0}
    for _ in range(60):
        cells = "{town.nom_the} ist {quality}", "{town.the} is {quality}", "{town.the} es {quality}"
        german, _, spanish = Draws(dice, "de").filled(cells)
        if german.startswith("die ") and spanish.endswith((" pequeña", " bonita", " nueva", " cara", " moderna")):
            seen["feminine"] += spanish.startswith("la ")
        if spanish.endswith((" pequeño", " bonito", " nuevo", " caro", " moderno")):
            assert spanish.startswith("el "), spanish
            seen["masculine"] += 1
    assert min(seen.values()) > 0


def test_random_words_hardly_recur() -> None:
    dice = Dice("words")
    words = Counter(random_word(dice) for _ in range(2000))
    assert len(words) > 1500
    assert all(word.isalpha() and word[0].isupper() for word in words)


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_there_are_200_first_sentences_with_their_translations(source: str, target: str) -> None:
    sentences = first_sentences(source, target)
    assert len({without_punctuation(sentence) for sentence, _ in sentences}) == 200
    assert all(correct and not any(mark in text for text in correct for mark in "[]|=") for _, correct in sentences)


def test_alternatives_of_a_first_sentence() -> None:
    (_, correct) = next(row for row in first_sentences("de", "en") if row[0] == "Ich bin Katharina.")
    assert correct == {"I am Katharina.", "I'm Katharina."}


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_no_first_sentence_is_trained_on(source: str, target: str) -> None:
    trained = {without_punctuation(text) for text in phrase_pairs(source, target, held_out=False).sources}
    assert len(trained) > 30_000
    assert not [text for text, _ in first_sentences(source, target) if without_punctuation(text) in trained]


@pytest.mark.slow
def test_the_card_counts_words_that_recur_in_the_training_text() -> None:
    card = demo_card("demo-de-en", phrase_pairs("de", "en", held_out=False).sources)
    assert {"lehrer", "wohne", "bahnhof", "und", "möchte"} <= card.known_words
    assert 800 < card.words < 2000
    assert f"{card.words:,} German words" in card.summary
    assert max(len(word) for word in card.known_words) < 25


def test_the_sentences_are_the_same_in_every_process() -> None:
    digest = hashlib.sha256(repr(conversation.pairs("de", "en", 500)).encode()).hexdigest()
    assert digest == CONVERSATION
