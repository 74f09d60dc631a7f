"""The made railway corpus: deterministic, parts without overlap, and grammatical in both languages."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.railway_grammar import sentence_pair
from benchmarks.railway_talk import (
    SIZES,
    UNSEEN_PATTERNS,
    Corpus,
    corpus,
    nearest,
    part_of,
    part_of_combination,
    part_of_pattern,
    share_in,
    write,
)
from benchmarks.railway_words import PATTERNS

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def parts() -> Corpus:
    return corpus(seed=1)


def test_same_seed_same_corpus(parts: Corpus) -> None:
    assert corpus(seed=1) == parts
    assert corpus(seed=2)["test"] != parts["test"]


def test_no_sentence_is_in_two_parts(parts: Corpus) -> None:
    assert {part: len(pairs) for part, pairs in parts.items()} == SIZES
    everything = [pair for pairs in parts.values() for pair in pairs]
    assert len({pair.source for pair in everything}) == len({pair.target for pair in everything}) == sum(SIZES.values())


def test_half_of_the_test_set_has_patterns_that_training_lacks(parts: Corpus) -> None:
    training = {pair.pattern for pair in parts["train"]}
    for part, count in UNSEEN_PATTERNS.items():
        unseen = [pair for pair in parts[part] if pair.unseen_pattern]
        assert len(unseen) == SIZES[part] // 2
        assert not training.intersection(pair.pattern for pair in unseen)
        assert part_of_pattern().count(part) == count
    assert not {p.pattern for p in parts["test"] if p.unseen_pattern} & {p.pattern for p in parts["valid"]}


def test_combinations_belong_to_one_part() -> None:
    where = [part_of_combination((f"pattern {i}", "Zug")) for i in range(2000)]
    assert 100 <= where.count("test") <= 180
    assert 50 <= where.count("valid") <= 110
    in_test = next((f"pattern {i}", "Zug") for i, part in enumerate(where) if part == "test")
    in_training = next((f"pattern {i}", "Zug") for i, part in enumerate(where) if part == "train")
    assert part_of([in_training, in_test]) == "test"
    assert part_of([in_training]) == part_of([]) == "train"


def test_varied(parts: Corpus) -> None:
    assert len(PATTERNS) >= 120
    assert len({register for register, _, _ in PATTERNS}) >= 6
    lengths = {len(pair.source.split()) for pair in parts["train"]}
    assert min(lengths) <= 4
    assert max(lengths) >= 25
    for side in ("source", "target"):
        words = {word.strip(".,;:!?") for pair in parts["train"] for word in getattr(pair, side).split()}
        assert len({word for word in words if word.isalpha()}) >= 700


@pytest.mark.parametrize(
    ("german", "english", "expected"),
    [
        ("Ich suche {den adj luggage}.", "I want {the adj luggage}.", "Ich suche den schweren Koffer."),
        ("Das ist {ein adj luggage}.", "It is {a adj luggage}.", "Das ist ein altes Fahrrad.|It is an old bicycle."),
        (
            "Mit {dem adj train}.",
            "On {the adj train}.",
            "Mit der überfüllten S-Bahn.|On the overcrowded suburban train.",
        ),
        ("Wegen {des train}.", "Because of {the train}.", "Wegen des Regionalexpresses."),
        ("Vor {dem traveller}.", "In front of {the traveller}.", "Vor dem Studenten.|In front of the student."),
        ("In {dem room}.", "In {the room}.", "Im Wartesaal.|In the waiting room."),
        ("Mit {dat adj food.pl}.", "With {- adj food.pl}.", "Mit frischen Brötchen.|With fresh rolls."),
        ("Wo ist {der staff}? {^er staff} fehlt.", "{he staff}", "Wo ist die Technikerin? Sie fehlt.|She"),
        (
            "{main:pres train hitch}.",
            "{main:pres train hitch}.",
            "Der Intercity fällt aus.|The intercity is cancelled.",
        ),
        (
            "Weil {sub:past train hitch}.",
            "{q:past train hitch}?",
            "Weil der Zug ausgefallen ist.|Was the train cancelled?",
        ),
        ("{front:muss asker ride}?", "{q:muss asker ride}?", "Muss ich in Ulm umsteigen?|Do I have to change in Ulm?"),
        (
            "Ob {sub:will you ride}.",
            "{main:will you ride}",
            "Ob Sie in Ulm umsteigen wollen.|You want to change in Ulm",
        ),
        ("{zu:we ride}", "{ing:we ride}", "In Ulm umzusteigen|Changing in Ulm"),
        ("{imp favour}!", "{base favour}!", "Steigen Sie in die S-Bahn ein!|Get on the suburban train!"),
        ("{sub:pres crew work}", "{main:soll crew work}", "Ich die Weiche prüfe|I should check the switch"),
        (
            "{front:pres you errand}?",
            "{q:pres you errand}?",
            "Bezahlen Sie Ihre Fahrkarte?|Do you pay for your ticket?",
        ),
    ],
)
def test_grammar(german: str, english: str, expected: str) -> None:
    pairs = ("|".join(sentence_pair(random.Random(seed), german, english)[:2]) for seed in range(15_000))
    assert any(pair == expected or pair.startswith(f"{expected}|") for pair in pairs)


def test_nearest_training_sentence() -> None:
    train = ["der Zug fährt", "der Bus fährt heute nicht", "wo ist der Zug", "ein ganz anderer Satz"]
    assert nearest(train, ["der Zug fährt heute", "wo ist der Bus", "Satz"]) == [0, 2, 0]


def test_share_of_known_ngrams() -> None:
    assert share_in(["a b c d e"], ["a b c x"], 1) == 75.0
    assert share_in(["a b c d e"], ["a b c x", "c d e"], 2) == 80.0


def test_written_line_by_line(parts: Corpus, tmp_path: Path) -> None:
    write(parts, tmp_path / "railway")
    lines = (tmp_path / "railway" / "test.de").read_text(encoding="utf-8").split("\n")
    assert lines == [*(pair.source for pair in parts["test"]), ""]
