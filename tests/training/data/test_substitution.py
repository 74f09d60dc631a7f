"""Lines with exchanged words."""

from __future__ import annotations

import re

import pytest

from training.config.shipped_corpora import LANGUAGES
from training.data.corpus_loading import read_pairs
from training.data.substitution import COPIED_SHARE, Texts, substituted

NOUNS = [
    ("noun", "the dog", "der Hund", "el perro", "小狗", "die Hunde"),
    ("noun", "the apple tree", "der Apfelbaum", "el manzano", "苹果树", "die Apfelbäume"),
    ("noun", "the elephant", "der Elefant", "el elefante", "大象", "die Elefanten"),  # den Elefanten
    ("noun", "the envelope", "der Umschlag", "el sobre", "信封", "die Umschläge"),
    ("noun", "the teacher", "der Lehrer", "el maestro", "老师", "die Lehrer"),  # one form for both numbers
    ("noun", "the table", "der Tisch", "la mesa", "桌子", "die Tische"),
    ("noun", "the lamp", "die Lampe", "la lámpara", "台灯", "die Lampen"),
    ("noun", "the glass", "die Scheibe", "el cristal", "玻璃", "die Scheiben"),
    ("noun", "the city", "die Stadt", "la ciudad", "城市", "die Städte"),
    ("noun", "the street", "die Straße", "la calle", "街道", "die Straßen"),
]
DOG: Texts = ("Is that a dog?", "Ist das ein Hund?", "¿Es un perro?", "那是小狗吗？")


def exchanged(line: Texts, *entries: tuple[str, ...], count: int = 60) -> set[Texts]:
    return {made for seed in range(count) for made in substituted([line], entries, seed)}


def test_a_noun_gives_way_to_one_that_agrees_in_all_languages() -> None:
    made = exchanged(DOG, *NOUNS)
    assert ("Is that an envelope?", "Ist das ein Umschlag?", "¿Es un sobre?", "那是信封吗？") in made
    assert not any(word in line[1] for line in made for word in ("Elefant", "Tisch", "Lampe", "Scheibe", "Lehrer"))
    assert DOG not in made


def test_some_nouns_give_way_to_words_that_are_copied() -> None:
    copied = [line for line in exchanged(DOG, *NOUNS, count=400) if "Umschlag" not in line[1]]
    for english, german, spanish, chinese in copied:
        (word,) = re.findall(r"an? (\w+)\?", english)
        assert (german, spanish, chinese) == (f"Ist das ein {word}?", f"¿Es un {word}?", f"那是{word}吗？")
    assert any(re.search(r"\d", line[0]) for line in copied) and any(line[0].isascii() for line in copied)
    assert 0 < COPIED_SHARE < 0.5


def test_plurals_agree_too() -> None:
    made = exchanged(("The lamps shine.", "Die Lampen leuchten.", "Las lámparas brillan.", "台灯亮着。"), *NOUNS)
    assert ("The streets shine.", "Die Straßen leuchten.", "Las calles brillan.", "街道亮着。") in made
    assert not any("Städte" in line[1] for line in made), "den Städten has another form"


@pytest.mark.parametrize(
    "line",
    [
        ("The dog bites the dog.", "Der Hund beißt den Hund.", "El perro muerde al perro.", "小狗咬小狗。"),
        ("Give the dog a bone.", "Gib dem Tier einen Knochen.", "Dale un hueso al perro.", "给小狗一根骨头。"),
        ("A dog barks.", "Ein Hund bellt.", "Un perro ladra.", "一只小狗在叫。"),  # 只 does not count all things
    ],
)
def test_a_line_where_a_word_does_not_stand_once_in_each_text_stays(line: Texts) -> None:
    assert exchanged(line, *NOUNS, count=10) == set()


def test_adjectives_are_exchanged_in_predicates_alone() -> None:
    adjectives = [
        ("adj", "quiet", "leise", "silencioso", "安静", ""),
        ("adj", "expensive", "teuer", "caro", "昂贵", ""),
        ("adj", "green", "grün", "verde", "绿色", ""),
    ]
    predicate = ("The motor is quiet.", "Der Motor ist leise.", "El motor es silencioso.", "马达很安静。")
    assert exchanged(predicate, *adjectives) == {
        ("The motor is expensive.", "Der Motor ist teuer.", "El motor es caro.", "马达很昂贵。")
    }
    attribute = ("A quiet motor.", "Ein leise laufender Motor.", "Un motor silencioso.", "安静的马达。")
    assert exchanged(attribute, *adjectives) == set()


@pytest.mark.slow
def test_new_lines_of_the_corpus_are_the_same_every_time_and_in_all_languages() -> None:
    sides = [read_pairs("everyday-substituted", (code, "en" if code != "en" else "de")).sources for code in LANGUAGES]
    assert len({len(side) for side in sides}) == 1 and len(sides[0]) > 5000
    assert not {*sides[0]} & {*read_pairs("everyday:en-de").sources}
    assert not {*sides[0]} & {*read_pairs("everyday-test:en-de").sources}


def test_careless_sources_are_in_lower_case_without_a_stop() -> None:
    careless = read_pairs("everyday-careless:de-en")
    whole = {target: source for source, target in zip(*_sides("everyday:de-en"), strict=True)}
    assert 0.05 < len(careless) / len(whole) < 0.08
    for source, target in zip(careless.sources, careless.targets, strict=True):
        assert source == source.lower() and source[-1] not in ".?!"
        assert whole[target].lower().rstrip(".!?…") == source.rstrip("…")


def _sides(argument: str) -> tuple[list[str], list[str]]:
    pairs = read_pairs(argument)
    return list(pairs.sources), list(pairs.targets)
