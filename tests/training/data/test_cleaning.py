"""Each rule: what it leaves out, what it spares, and that it can be switched off."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.data.corpus_writers import refusal
from training.config.run_config import NO_CLEANING, CleaningConfig
from training.data.cleaning import clean, comparison_key, is_broken
from training.data.sentence_pairs import Pairs, collect_pairs

DOG = ("Der Hund schläft auf dem Sofa.", "The dog is asleep on the sofa.")
CAT = ("Die Katze sitzt am Fenster.", "The cat is sitting at the window.")
LONG_COPY = ("Neue Nachrichten aus aller Welt",) * 2


def pairs(*rows: tuple[str, str]) -> Pairs:
    return collect_pairs([(number, *row) for number, row in enumerate(rows, start=1)], "file")


def reasons(given: Pairs, config: CleaningConfig | None = None, **held_out: Pairs) -> dict[str, list[str]]:
    """{reason: places} of the dropped pairs; checks that the rest keeps its order."""
    results = clean(given, config or CleaningConfig(), **held_out)
    assert results.report is not None
    assert results.report.kept == len(results)
    assert results.report.left_out == len(given) - len(results)
    before = iter(zip(given.sources, given.targets, strict=True))
    assert all(pair in before for pair in zip(results.sources, results.targets, strict=True))
    return {name: [example.place for example in reason.examples] for name, reason in results.report.dropped.items()}


@pytest.mark.parametrize(
    ("bad", "reason", "off"),
    [
        (("Der Hund\x07 bellt.", "The dog barks."), "broken characters", {"broken": False}),
        (("Der Hund bellt.", "The dog\ufffd barks."), "broken characters", {"broken": False}),
        (("Die TÃ¼r ist offen.", "The door is open."), "broken characters", {"broken": False}),
        (("a" * 5001, "b" * 4000), "over 5,000 characters", {"max_characters": None}),
        (("a" * 4000, "b" * 5001), "over 5,000 characters", {"max_characters": 6000}),
        (LONG_COPY, "identical sides", {"identical_from": None}),
        (LONG_COPY, "identical sides", {"identical_from": 32}),
        ((DOG[0] * 9, DOG[1]), "length ratio", {"ratio": None}),
        ((DOG[0], DOG[1] * 9), "length ratio", {"ratio": 10.0}),
        (CAT, "exact duplicate", {"duplicates": False}),
    ],
)
def test_each_rule_drops_its_pairs(bad: tuple[str, str], reason: str, off: dict[str, Any]) -> None:
    given = pairs(DOG, CAT, bad)
    assert reasons(given) == {reason: ["file:3"]}
    assert reasons(given, CleaningConfig(**off)) == {}


@pytest.mark.parametrize(
    "good",
    [
        ("Taxi", "Taxi"),
        ("Ja.", "Yes, certainly I do."),
        (DOG[0], CAT[1]),
        (CAT[0], DOG[1]),
        (DOG[0].lower(), DOG[1]),
        ("„MENÜ“ là» ÀÉ “CRÊPE”", "“MENU” « là »"),
        ("a\tb", "c"),
        ("zero\u200bwidth", "soft\u00adhyphen"),
        ("x" * 5000, "y" * 5000),
    ],
)
def test_clean_pairs_are_kept(good: tuple[str, str]) -> None:
    assert reasons(pairs(DOG, CAT, good)) == {}


def test_no_cleaning_keeps_every_pair() -> None:
    bad = [DOG, DOG, ("a\x07", "b"), LONG_COPY, ("a" * 9000, "b"), ("Ã¼", "\ufffd")]
    assert reasons(pairs(*bad), NO_CLEANING, test=pairs(DOG), validation=pairs(*bad)) == {}


def test_length_ratio_is_relative_to_the_corpus_median() -> None:
    """Each target has a fifth of its source's characters, as no plain limit of 4 would allow."""
    rows = [("word " * n, "字" * n) for n in range(20, 40)]
    assert reasons(pairs(*rows)) == {}
    assert reasons(pairs(*rows, ("字" * 60, "word " * 50))) == {"length ratio": ["file:21"]}


def test_the_tolerance_is_in_characters() -> None:
    rows = [DOG, CAT, ("xyzxyzxyz" * 3, "abc" * 3)]  # typical ratio 1.x, so 27 against 9 lies within 4 times
    assert reasons(pairs(*rows), CleaningConfig(ratio=1.0, ratio_tolerance=40)) == {}
    assert reasons(pairs(*rows), CleaningConfig(ratio=1.0, ratio_tolerance=10)) == {"length ratio": ["file:3"]}


def test_only_the_first_reason_counts_and_examples_are_three() -> None:
    copies = [LONG_COPY] * 5
    result = clean(pairs(DOG, CAT, *copies), CleaningConfig())
    assert result.report is not None
    assert {name: reason.count for name, reason in result.report.dropped.items()} == {"identical sides": 5}
    assert [e.place for e in result.report.dropped["identical sides"].examples] == ["file:3", "file:4", "file:5"]


OTHER = ("Ein Vogel singt.", "A bird sings.")
TEST = pairs(("der  HUND schläft\u00a0auf dem Sofa.", "the dog is asleep on the sofa."), OTHER)


@pytest.mark.parametrize(
    ("overlap", "left_out"),
    [("off", []), ("pair", [1]), ("source", [1, 2]), ("either", [1, 2, 3])],
)
def test_overlap_with_a_held_out_set(overlap: Any, left_out: list[int]) -> None:
    given = pairs(
        DOG, (DOG[0], "The dog sleeps."), ("Ein Vogel zwitschert.", OTHER[1]), CAT, ("Gut.", "Good."), ("Ja.", "Yes.")
    )
    expected = {"in the test set": [f"file:{line}" for line in left_out]} if left_out else {}
    config = CleaningConfig(overlap=overlap)
    assert reasons(given, config, test=TEST) == expected
    result = clean(given, config, test=TEST, validation=pairs(CAT)).report
    assert result is not None
    assert result.overlaps == {
        "test": {"pair": 1, "source": 1, "target": 1},
        "validation": {"pair": 1, "source": 0, "target": 0},
    }
    assert ("in the validation set" in result.dropped) == (overlap != "off")


def test_default_overlap_check_uses_test_set_sources() -> None:
    given = pairs((DOG[0], "The dog sleeps."), ("Ein Vogel zwitschert.", OTHER[1]), CAT)
    assert reasons(given, test=TEST) == {"in the test set": ["file:1"]}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Straße", "STRASSE"),
        ("ﬁnden", "finden"),
        ("①", "1"),
        ("e\u0301", "é"),
        (" a\u3000b ", "A b"),
        ("Ｂier", "bier"),
    ],
)
def test_comparison_key_ignores_case_space_and_form(a: str, b: str) -> None:
    assert comparison_key(a) == comparison_key(b)
    assert comparison_key("Bar") != comparison_key("Bär")


@given(st.text())
def test_comparison_key_is_nfkc_casefold_and_single_spaces(text: str) -> None:
    assert comparison_key(text) == " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@pytest.mark.parametrize("text", ["\x00", "a\x0bb", "\x7f", "a\x85", "\ufffd", "fÃ¼r", "â€œquotedâ€\x9d", "Ð¼Ð¸Ñ€"])
def test_broken_texts_are_detected(text: str) -> None:
    assert is_broken(text)


@pytest.mark.parametrize(
    "text", ["", "für", "мир", "„ja“", "NÃO", "là»", "a\u200db", "한국어", "x\u2028y", "Âge", "’90er"]
)
def test_intact_texts_are_not_broken(text: str) -> None:
    assert not is_broken(text)


def test_too_few_pairs_are_refused() -> None:
    assert refusal(clean, pairs(DOG), CleaningConfig()) == "file has 1 pair; training needs at least two."
    message = refusal(clean, pairs(DOG, DOG, LONG_COPY), CleaningConfig())
    assert message == (
        "file has 1 pair of 3 after cleaning (exact duplicate 1, identical sides 1); training needs at least two."
    )
    everything = pairs(DOG, CAT)

    def clean_all() -> Pairs:
        return clean(everything, CleaningConfig(), test=everything)

    expected = (
        "file has no pairs of 2 after cleaning (in the test set 2); training needs at least two: these are the pairs of"
        " --test, which takes others."
    )
    assert refusal(clean_all) == expected
