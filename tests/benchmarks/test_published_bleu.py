"""BLEU in other projects' forms: against arithmetic by hand, and the tokens that each form counts."""

from __future__ import annotations

import math

import pytest

from benchmarks import published_bleu


def test_bleu_of_tokens_is_the_formula() -> None:
    """Five tokens of six, precisions 5/5, 4/4, 3/3, 2/2 and a brevity penalty of exp(1 - 6/5)."""
    score = published_bleu.of_tokens(str.split, ["a b c d e"], ["a b c d e f"])
    assert score == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_bleu_of_tokens_is_not_smoothed() -> None:
    assert published_bleu.of_tokens(str.split, ["a b c x"], ["a b c d"]) == 0.0


def test_moses_lowercases_normalises_and_splits_as_multi30k_does() -> None:
    pytest.importorskip("sacremoses", reason="an extra of the benchmarks")
    german = published_bleu.moses("de")
    assert german("Ein Mann, „grün“ gekleidet, trägt ein T-Shirt.") == [
        *("ein", "mann", ",", '"', "grün", '"', "gekleidet", ",", "trägt", "ein", "t-shirt", ".")
    ]


@pytest.mark.slow
def test_spacy_splits_contractions_and_hyphens() -> None:
    pytest.importorskip("spacy", reason="an extra of the benchmarks")
    english = published_bleu.spacy_words("en")
    assert english("It doesn't run:  a T-Shirt.") == ["it", "does", "n't", "run", ":", "a", "t", "-", "shirt", "."]


def test_all_scores_of_a_perfect_but_capitalised_output() -> None:
    pytest.importorskip("sacremoses", reason="an extra of the benchmarks")
    pytest.importorskip("spacy", reason="an extra of the benchmarks")
    result = published_bleu.scores("en", ["THE DOG RUNS OVER THE HILL ."], ["The dog runs over the hill ."])
    assert [result[name] for name in ("lowercased", "moses", "spacy")] == [100.0, 100.0, 100.0]
    assert float(result["cased"]) < 20
    assert "case:lc" in str(result["lowercased_signature"])
    assert "case:mixed" in str(result["cased_signature"])
