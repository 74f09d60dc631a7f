"""Corpora of several language pairs: their spelling, reading, held-out pairs, and shares of an epoch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from training.config.corpus_languages import pair_name, parse_pair_name, split_languages
from training.config.run_config import MultilingualConfig, TranslatorConfig
from training.data.run_corpora import read_multilingual_corpora
from training.data.segmentation import epoch_rows, epoch_sizes


@pytest.mark.parametrize(
    ("argument", "directions", "corpus"),
    [
        ("de-en:pairs.tsv", [("de", "en")], "pairs.tsv"),
        ("de-en:a.de,a.en", [("de", "en")], "a.de,a.en"),
        ("de<>en:pairs.tsv", [("de", "en"), ("en", "de")], "pairs.tsv"),
        ("de-en,de-fr:memory.tmx", [("de", "en"), ("de", "fr")], "memory.tmx"),
        ("pt_BR-en:hf:some/set:train", [("pt-BR", "en")], "hf:some/set:train"),
        ("en-zh_Hans:C:\\texts\\pairs.tsv", [("en", "zh-Hans")], "C:\\texts\\pairs.tsv"),
    ],
)
def test_languages_stand_before_the_corpus(argument: str, directions: list[tuple[str, str]], corpus: str) -> None:
    languages = split_languages(argument)
    assert languages is not None
    assert (list(languages.directions), languages.corpus) == (directions, corpus)
    assert str(languages) == argument  # as run.toml repeats it


@pytest.mark.parametrize("argument", ["pairs.tsv", "hf:name", "C:\\pairs.tsv", "pt-BR-en:a", "de-en", "de-en:", "de:a"])
def test_other_arguments_name_no_languages(argument: str) -> None:
    assert split_languages(argument) is None


def test_pairs_have_names() -> None:
    for pair in (("de", "en"), ("pt-BR", "zh-Hans")):
        assert parse_pair_name(pair_name(pair)) == pair
    assert pair_name(("pt-BR", "en")) == "pt_BR-en"
    assert parse_pair_name("de") is parse_pair_name("de-en-fr") is None


def test_shares_of_an_epoch_follow_the_temperature() -> None:
    assert epoch_sizes([1000, 10], 1.0) == [1000, 10]
    assert epoch_sizes([1000, 10], 2.0) == [1000, 100]  # (10/1000) ** (1/2) of the largest
    assert epoch_sizes([1000, 10], 5.0) == [1000, 398]
    assert epoch_sizes([7], 5.0) == [7]


def test_every_pair_of_a_small_part_comes_equally_often() -> None:
    parts = [("de-en", 1000), ("de-fr", 30)]
    first, second = (epoch_rows(parts, 5.0, f"1 {epoch}") for epoch in (0, 1))
    counts = Counter(first)
    assert [counts[i] for i in range(1000)] == [1] * 1000
    assert sum(counts[i] for i in range(1000, 1030)) == epoch_sizes([1000, 30], 5.0)[1] == 496
    assert {counts[i] for i in range(1000, 1030)} == {16, 17}
    assert first == epoch_rows(parts, 5.0, "1 0")
    assert first != second


def config(pairs: str, **options: float) -> TranslatorConfig:
    return TranslatorConfig(recipe="test", multilingual=MultilingualConfig(language_pairs=pairs, **options))


def test_each_source_begins_with_its_targets_token(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("eins\tone\nzwei\ttwo\n")
    rows = [{"de": "drei", "fr": "trois"}, {"de": "vier", "fr": "quatre"}]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train, valid, test = read_multilingual_corpora(
        {"train": [f"de<>en:{tmp_path}/a.tsv", f"de-fr:{tmp_path}/b.jsonl"]}, config("de-en,en-de,de-fr")
    )
    assert (valid, test) == (None, None)
    assert list(zip(train.sources, train.targets, strict=True)) == [
        *((">>en<< eins", "one"), (">>en<< zwei", "two"), (">>de<< one", "eins"), (">>de<< two", "zwei")),
        *((">>fr<< drei", "trois"), (">>fr<< vier", "quatre")),
    ]
    assert train.parts == (("de-en", 2), ("en-de", 2), ("de-fr", 2))
    assert [(name, part.sources) for name, part in train.by_part()][2] == ("de-fr", [">>fr<< drei", ">>fr<< vier"])
    assert train.only([0, 3, 4, 5], "").parts == (("de-en", 1), ("en-de", 1), ("de-fr", 2))
    assert train.place(3) == f"{tmp_path}/a.tsv:2"
    assert {name: report.kept for name, report in train.reported().language_pairs.items()} == dict(train.parts)


def test_no_pair_of_either_direction_is_trained_and_held_out(tmp_path: Path) -> None:
    lines = [f"satz {number} hier\tline {number} here" for number in range(400)]
    (tmp_path / "a.tsv").write_text("\n".join(lines))
    train, valid, _ = read_multilingual_corpora({"train": [f"de<>en:{tmp_path}/a.tsv"]}, config("de-en,en-de"))
    assert valid is not None
    trained, held = (
        {name: {(source.split("<< ")[1], target) for source, target in zip(p.sources, p.targets, strict=True)}
         for name, p in pairs.by_part()}
        for pairs in (train, valid)
    )  # fmt: skip
    assert len(held["de-en"]) == len(held["en-de"]) == 40
    assert trained["de-en"].isdisjoint(held["de-en"] | {(s, t) for t, s in held["en-de"]})
    assert trained["en-de"].isdisjoint(held["en-de"] | {(s, t) for t, s in held["de-en"]})
    assert len(trained["de-en"]) >= 400 - 80


def test_given_test_pairs_are_left_out_of_the_other_direction_too(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("eins\tone\nzwei\ttwo\ndrei\tthree\nvier\tfour\n")
    (tmp_path / "test.tsv").write_text("eins\tone\n")
    data = {"train": f"de<>en:{tmp_path}/a.tsv", "test": [f"de-en:{tmp_path}/test.tsv"]}
    train, _, test = read_multilingual_corpora(data, config("de-en,en-de"))
    assert test is not None
    assert (test.sources, test.parts) == ([">>en<< eins"], (("de-en", 1),))
    assert ">>en<< eins" not in train.sources
    assert ">>de<< one" not in train.sources
    dropped = train.reported().language_pairs["en-de"].dropped
    assert dropped["shares a side with a held-out pair of de-en"].count == 1


def test_notes_say_how_often_an_epoch_reads_a_small_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"satz {number}\tline {number}\n" for number in range(64)))
    (tmp_path / "b.tsv").write_text("satz\tligne\nwort\tmot\n")
    data = {"train": [f"de-en:{tmp_path}/a.tsv", f"de-fr:{tmp_path}/b.tsv"]}
    train, _, _ = read_multilingual_corpora(data, config("de-en,de-fr", sampling_temperature=5.0))
    assert len(train) == 66
    assert train.reported().language_pairs["de-fr"].notes == ["an epoch reads 32 pairs of it, each 16.0 times"]
