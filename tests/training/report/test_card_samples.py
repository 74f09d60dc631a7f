"""A card's samples come from the published weights, not from the last validation."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from models.networks.loading import load_network
from tests.training.runs import sing, timeless, translate
from tests.training.small import lyricist, pairs, text
from training import snapshot
from training.config.run_config import LoopConfig, OptimizerConfig
from training.evaluation.bleu_validator import validation_sample
from training.evaluation.model_outputs import translate as translations
from training.lyricist_run import split_text
from training.report.progress_report import escape_markdown, read_rows

pytestmark = pytest.mark.usefixtures("no_curves")


def best_and_last(folder: Path) -> tuple[int, int]:
    return snapshot.load(folder)["progress"]["best_update"], timeless(folder)[-1]["update"]


def test_samples_of_a_translator_card(tmp_path: Path) -> None:
    translate(tmp_path, 9, optimizer=OptimizerConfig(learning_rate=0.02), loop=LoopConfig(sample_translations=2))
    best, last = best_and_last(tmp_path)
    assert best < last
    checkpoint, valid = checkpoints.read(tmp_path), pairs(10, seed=1)
    sources = [valid.sources[0], valid.sources[5]]
    made = translations(checkpoint, load_network(checkpoint), sources)
    given_up = [sample[2] for sample in read_rows(tmp_path / "samples.jsonl")[-1]["samples"]]
    assert made != given_up
    card = (tmp_path / "README.md").read_text()
    for i, source, output in zip((0, 5), sources, made, strict=True):
        assert f"| {source} | {valid.targets[i]} | {escape_markdown(output)} |" in card


def test_samples_of_a_lyricist_card(tmp_path: Path) -> None:
    sing(tmp_path, 8, optimizer=OptimizerConfig(learning_rate=0.1))
    best, last = best_and_last(tmp_path)
    assert best < last
    checkpoint = checkpoints.read(tmp_path)
    train, _ = split_text(lyricist(), text(300))
    [(opening, _, made)] = validation_sample(checkpoint, load_network(checkpoint), train, 1)
    [(_, _, given_up)] = read_rows(tmp_path / "samples.jsonl")[-1]["samples"]
    assert made != given_up
    assert f"| {escape_markdown(opening)} | {escape_markdown(made)} |" in (tmp_path / "README.md").read_text()
