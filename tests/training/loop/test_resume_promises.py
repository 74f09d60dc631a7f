"""Mistakes of other trainers: networks that cannot copy, vocabularies built from the test set, seeds without effect."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from tests.training.runs import sing, translate
from tests.training.small import CPU, translator
from training.config.run_config import LoopConfig, OptimizerConfig, TranslatorConfig
from training.data.sentence_pairs import Pairs
from training.training_run import TrainingRun
from training.translator_run import train_translator

WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]


def copies(count: int, seed: int) -> Pairs:
    generator = random.Random(seed)
    texts = [" ".join(generator.choices(WORDS, k=generator.randint(4, 7))) for _ in range(count)]
    return Pairs(texts, texts, f"copies {seed}")


def copier() -> TranslatorConfig:
    network = {**translator().network, "d_model": 32, "head_width": 16, "d_ff": 64, "encoder_layers": 1}
    return translator(
        network={**network, "embedding_dropout": 0.0, "residual_dropout": 0.0},
        label_smoothing=0.0,
        tokens_per_batch=512,
        optimizer=OptimizerConfig(learning_rate=6e-3, schedule="cosine", warmup_updates=50),
        loop=LoopConfig(max_epochs=9, ema_decay=0.9),
    )


@pytest.mark.slow  # it learns for seconds
@pytest.mark.usefixtures("no_curves")
def test_unseen_sentences_are_copied(tmp_path: Path) -> None:
    train = copies(2000, 1)
    seen = set(train.sources)
    unseen = [text for text in copies(200, 2).sources if text not in seen]
    assert len(unseen) > 100
    test = Pairs(unseen, unseen, "unseen")
    scores = train_translator(copier(), train, None, TrainingRun(out=tmp_path / "m", device=CPU, quiet=True), test=test)
    assert scores["unseen (greedy)"]["bleu"] >= 98.0


@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize("run", [pytest.param(translate, marks=pytest.mark.slow), sing])
def test_a_seed_repeats_and_another_differs(tmp_path: Path, run: Callable[..., Any]) -> None:
    weights = []
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        run(tmp_path / name, 1, loop=LoopConfig(seed=seed))
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


@pytest.mark.usefixtures("no_curves")
def test_vocabulary_comes_from_the_training_text_only(tmp_path: Path) -> None:
    """The Annotated Transformer builds its own of training, validation and test sentences."""
    train = copies(300, 1)
    other = Pairs(["ant zebra"] * 5, ["ant yak"] * 5, "other words")
    config = replace(copier(), loop=LoopConfig(max_epochs=1))
    train_translator(config, train, other, TrainingRun(out=tmp_path / "m", device=CPU, quiet=True), test=other)
    tokenizers = checkpoints.read(tmp_path / "m").tokenizers
    assert tokenizers["source"].size == tokenizers["target"].size == len(WORDS) + 4
    assert tokenizers["source"].unknown("ant zebra") != []
