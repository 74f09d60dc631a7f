"""Sentences and models of a serving run."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks.corpora import Sentences, everyday, multi30k
from benchmarks.served import LYRICIST, TRANSLATOR, prepare
from models.checkpoint import is_checkpoint, read
from training.data.corpus_loading import read_pairs


def test_stand_in_is_trained_and_tested_on_different_sentences() -> None:
    sentences = everyday()
    assert {*read_pairs(sentences.train).sources}.isdisjoint(sentences.test)
    assert len(sentences.test) > 1000


def test_real_sentences_are_read_from_the_folder(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "test_2016_flickr.de.gz", "wt", encoding="utf-8") as file:
        file.write("Ein Hund.\n\nEine Katze läuft.\n")
    sentences = multi30k(tmp_path)
    assert sentences.test == ("Ein Hund.", "Eine Katze läuft.")
    assert sentences.train.split(",")[1].endswith("train.en.gz")
    with pytest.raises(FileNotFoundError):
        multi30k(tmp_path / "elsewhere")


def test_draws_go_round_and_paragraphs_are_short() -> None:
    sentences = Sentences("c", "p", "", "", tuple(f"w{i} x y z q" for i in range(10)))
    assert sorted(sentences.drawn(20, 1)) == sorted(sentences.test * 2)
    assert sentences.drawn(20, 1) == sentences.drawn(20, 1) != sentences.drawn(20, 2)
    paragraphs = sentences.paragraphs(300, 1)
    assert len(paragraphs) == 300
    assert {len(p.split()) for p in paragraphs} == {4, 5, 10}


def test_both_models_are_there_and_the_lyricist_is_a_gru_of_256(tiny_checkpoints: Path, tmp_path: Path) -> None:
    given = tiny_checkpoints / "tiny-de-en"
    served = prepare(tmp_path, given, Sentences("c", "p", "", "", ("a",)), 0)
    assert served.origin == "tiny-de-en, as given"
    assert read(served.translator).config.files == read(given).config.files
    architecture = read(served.lyricist).config.architecture
    assert (architecture["cell"], architecture["hidden"]) == ("gru", 256)
    assert {path.name for path in tmp_path.iterdir() if is_checkpoint(path)} == {TRANSLATOR, LYRICIST}
