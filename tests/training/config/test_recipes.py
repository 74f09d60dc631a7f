"""Every recipe is a whole valid configuration; every problem of one is named in one message."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path

import pytest
import torch

from models.checkpoint import is_checkpoint
from models.networks.transformer import TransformerConfig
from tests.models import tiny
from tests.training.small import CPU, lyricist, pairs, text, translator
from training.config.recipes import LYRICISTS, TRANSLATORS
from training.config.run_config import LoopConfig
from training.errors import TrainingError, raise_all
from training.lyricist_run import build_lyricist, train_lyricist
from training.training_run import TrainingRun
from training.translator_run import train_translator


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translators_recipe_is_valid(name: str) -> None:
    config = TRANSLATORS[name].config
    assert config.recipe == name
    assert list(filter(None, config.loop.problems())) == []
    size = config.tokenizer.vocab_size
    network = TransformerConfig(source_vocabulary=size, target_vocabulary=size, **config.network)
    assert network.heads * network.head_width == network.d_model
    assert config.max_tokens <= config.tokens_per_batch
    assert config.tokenizer.joint or network.tied != "all"
    assert json.loads(json.dumps(asdict(config)))["recipe"] == name
    with pytest.raises(FrozenInstanceError):
        config.recipe = "other"  # type: ignore[misc]


HEAVY = tuple(name for name in TRANSLATORS if name != "tiny")  # more layers: most of a second each


@pytest.mark.usefixtures("no_curves")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in HEAVY)) for name in TRANSLATORS]
)
def test_a_translators_recipe_trains(name: str, tmp_path: Path) -> None:
    """Made narrow and its warm-up short: what it reads, drops and pulls stays its own."""
    config = TRANSLATORS[name].config
    narrow = {"d_model": 32, "heads": 2, "head_width": 16, "d_ff": 32}
    config = replace(
        config,
        network={**config.network, **narrow},
        tokenizer=replace(config.tokenizer, vocab_size=25),
        tokens_per_batch=256,
        optimizer=replace(config.optimizer, learning_rate=3e-3, warmup_updates=5),
        loop=replace(config.loop, max_epochs=3, ema_decay=0.0),
    )
    train, valid = (replace(part, targets=part.sources) for part in (pairs(120), pairs(20, seed=1)))
    train_translator(config, train, valid, TrainingRun(out=tmp_path, device=CPU, quiet=True))
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    held_out = [row["valid_loss"] for row in rows if "valid_loss" in row]
    assert len(held_out) == 3
    assert held_out[-1] < held_out[0] - 0.1  # nats per token
    assert is_checkpoint(tmp_path)


@pytest.mark.every_value
@pytest.mark.parametrize("name", LYRICISTS)
@pytest.mark.parametrize("cell", tiny.ALL_CELLS)
def test_a_lyricists_recipe_is_valid(name: str, cell: str) -> None:
    config = LYRICISTS[name].config
    assert config.recipe == name
    config = replace(config, network={**config.network, "cell": cell})
    network = build_lyricist(config, 50)
    assert network.config.cell == cell
    with torch.inference_mode():
        assert network(torch.zeros(1, 3, dtype=torch.long))[0].shape == (1, 3, 50)


def test_the_tutorials_recipes_start_as_the_tutorial_does() -> None:
    torch.manual_seed(0)
    network = build_lyricist(LYRICISTS["d2l-random"].config, 1000)
    for parameter in network.parameters():
        if parameter.dim() >= 2:
            assert float(parameter.detach().std()) == pytest.approx(0.01, rel=0.02)
            assert abs(float(parameter.detach().mean())) < 1e-3
        else:
            assert not parameter.any()
    assert not network.recurrent.bias_hh_l0.requires_grad


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(TrainingError) as excinfo:
        LoopConfig(max_epochs=0, max_minutes=-1.0, seed=-1, ema_decay=1.0, patience=-2, validate_every_epochs=-1)
    message = str(excinfo.value)
    assert message.count("\n") == 0
    for name in ("max_epochs", "max_minutes", "seed", "ema_decay", "patience", "validate_every_epochs"):
        assert message.count(f"{name} must") == 1
    for kind in (translator, lyricist):
        with pytest.raises(TrainingError, match=r"loop\.validate_every_epochs must be at least 1, not 0"):
            kind(loop=LoopConfig(validate_every_epochs=0))


def test_no_problem_is_no_error() -> None:
    raise_all(["", ""])
    raise_all([])


def test_unknown_network_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"recipe small cannot be built: .*'d_modell'"):
        config = translator(network={"d_modell": 3})
        train_translator(config, pairs(40), None, TrainingRun(out=tmp_path / "t", device=CPU, quiet=True))
    with pytest.raises(TrainingError, match=r"recipe small cannot be built: .*'layer'"):
        train_lyricist(
            lyricist(network={"layer": 3}),
            text(300),
            TrainingRun(out=tmp_path / "l", device=CPU, quiet=True),
            origin="",
        )


def test_impossible_network_options_are_listed_together(tmp_path: Path) -> None:
    config = translator(network={"d_model": 0, "heads": -1, "embedding_dropout": 1.0, "encoder_layers": 0})
    with pytest.raises(TrainingError) as excinfo:
        train_translator(config, pairs(40), None, TrainingRun(out=tmp_path / "t", device=CPU, quiet=True))
    for name in ("d_model", "heads", "embedding_dropout", "encoder_layers"):
        assert name in str(excinfo.value)
    config_zh = lyricist(network={"hidden": 0, "cell": "mlp", "dropout": 2})
    with pytest.raises(TrainingError, match=r"hidden.*cell.*dropout"):
        train_lyricist(config_zh, text(300), TrainingRun(out=tmp_path / "l", device=CPU, quiet=True), origin="")
