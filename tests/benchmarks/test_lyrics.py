"""The lyricist's benchmark: what a row says, which corpus has a goal, and that nothing is trained twice."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import pytest

from benchmarks import lyrics
from benchmarks.lyrics import HELD_OUT, figures, measure
from models.checkpoint import read
from tests.training.small import CPU, lyricist, text
from training import output_folder
from training.lyricist_run import train_lyricist
from training.training_run import TrainingRun


def test_nats_in_bits_and_as_a_perplexity() -> None:
    assert figures(math.log(2)) == {"nats": 0.6931, "bits_per_character": 1.0, "perplexity": 2.0}
    assert figures(1.4697) == {"nats": 1.4697, "bits_per_character": 2.1203, "perplexity": 4.3479}


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """With a training command that trains a tiny network in this process."""
    corpus = tmp_path / "song.txt"
    corpus.write_text(text(300))

    def training(_: str, *command: str) -> None:
        option = dict(zip(command[::2], command[1::2], strict=True))
        assert option["--corpus"] == str(corpus)
        assert (option["--recipe"], option["--cell"], option["--seed"]) == ("small", "gru", "3")
        train_lyricist(lyricist(), text(300), TrainingRun(out=Path(option["--out"]), device=CPU, quiet=True), origin="")

    monkeypatch.setattr(lyrics, "training", training)
    monkeypatch.setattr(output_folder, "draw_curves", lambda metrics, path: path.write_bytes(b""))
    return argparse.Namespace(corpus=corpus, recipe=None, minutes=None, seeds=[3])


def test_a_row_is_what_the_model_says_of_itself(arguments: argparse.Namespace, tmp_path: Path) -> None:
    (row,), goals = measure(arguments, tmp_path)
    scores = read(tmp_path / "song-small-gru-3").config.scores[HELD_OUT]
    assert goals == []
    assert row["nats"] == scores["nats_per_character"]
    assert row["bits_per_character"] == pytest.approx(scores["bits_per_character"], abs=2e-4)
    assert row["perplexity"] == pytest.approx(scores["perplexity"], rel=2e-4)
    assert (row["characters"], row["seed"]) == (29, 3)


def test_what_was_trained_is_not_trained_again(
    arguments: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = measure(arguments, tmp_path)
    monkeypatch.setattr(lyrics, "training", None)
    assert measure(arguments, tmp_path) == once


def test_tiny_shakespeare_is_held_against_what_is_published(
    arguments: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = lyrics.hashlib.sha256(text(300).encode()).hexdigest()
    monkeypatch.setattr(lyrics, "TINY_SHAKESPEARE", digest)
    rows, (aim,) = measure(arguments, tmp_path)
    assert [row["nats"] for row in rows[1:]] == [1.4697, 1.88, 1.548, 1.555]
    assert aim["value"] == rows[0]["nats"]
    assert (aim["goal"], aim["met"]) == (1.5, rows[0]["nats"] <= 1.5)
