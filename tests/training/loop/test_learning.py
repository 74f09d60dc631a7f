"""Networks that cannot learn these have a bug, whatever their other numbers say."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.small import CPU, lyricist, translator
from training.config.run_config import LoopConfig, OptimizerConfig
from training.data.sentence_pairs import Pairs
from training.lyricist_run import train_lyricist
from training.training_run import TrainingRun
from training.translator_run import train_translator


@pytest.mark.usefixtures("no_curves")
def test_a_translator_learns_to_say_words_backwards(tmp_path: Path) -> None:
    sources = [" ".join(words) for words in itertools.product("abcd", repeat=3)]
    data = Pairs(sources, [source[::-1] for source in sources], "all of them")
    network = {**translator().network, "d_model": 32, "head_width": 16, "d_ff": 64}
    config = translator(
        network={**network, "embedding_dropout": 0.0, "residual_dropout": 0.0},
        label_smoothing=0.0,
        tokens_per_batch=128,
        optimizer=OptimizerConfig(learning_rate=1e-2, warmup_updates=10),
        loop=LoopConfig(max_epochs=30, patience=0, ema_decay=0.9),
    )
    scores = train_translator(config, data, None, TrainingRun(out=tmp_path / "m", device=CPU, quiet=True), test=data)
    result = scores["all of them (greedy)"]
    assert result["exact_match"] == 1.0
    assert result["chrf"] == 100.0


@pytest.mark.usefixtures("no_curves")
@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_lyricist_learns_a_refrain(tmp_path: Path, cell: str) -> None:
    refrain = "la la li lu\n" * 200
    config = lyricist(
        network={"cell": cell, "embedding": 8, "hidden": 32},
        bptt=24,
        optimizer=OptimizerConfig(learning_rate=2e-2),
        loop=LoopConfig(max_epochs=14),
    )
    scores = train_lyricist(config, refrain, TrainingRun(out=tmp_path / "m", device=CPU, quiet=True), origin="refrain")
    held_out = scores["held-out end of the text"]
    assert held_out["characters"] == 239
    assert held_out["nats_per_character"] < 0.05
    untrained = replace(config, optimizer=OptimizerConfig(learning_rate=1e-9), loop=LoopConfig(max_epochs=1))
    before = train_lyricist(
        untrained, refrain, TrainingRun(out=tmp_path / "n", device=CPU, quiet=True), origin="refrain"
    )
    assert before["held-out end of the text"]["nats_per_character"] > 1.5
