"""Whole runs of tiny models, how to kill them, and whether two of them are the same bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from models import checkpoint as checkpoints
from tests.training.small import CPU, lyricist, pairs, text, translator
from training import snapshot
from training.config.run_config import OptimizerConfig
from training.loop import trainer as loops
from training.lyricist_run import train_lyricist
from training.report.progress_report import read_rows
from training.training_run import TrainingRun
from training.translator_run import train_translator


class Killed(BaseException):
    """Stands for a signal: nothing may catch it and carry on."""


def translate(out: Path, epochs: int = 4, *, resume: bool = False, **changes: Any) -> dict[str, Any]:
    config = translator(**changes)
    config = replace(config, loop=replace(config.loop, max_epochs=epochs))
    return train_translator(
        config, pairs(40), pairs(10, seed=1), TrainingRun(out=out, device=CPU, resume=resume, quiet=True)
    )


def sing(out: Path, epochs: int = 4, *, resume: bool = False, **changes: Any) -> dict[str, Any]:
    config = lyricist(**changes)
    config = replace(config, loop=replace(config.loop, max_epochs=epochs))
    return train_lyricist(
        config, text(300), TrainingRun(out=out, device=CPU, resume=resume, quiet=True), origin="made up"
    )


def sing_random(out: Path, epochs: int = 4, *, resume: bool = False, **changes: Any) -> dict[str, Any]:
    return sing(out, epochs, resume=resume, sampling="random", **changes)


def sing_unheard(out: Path, epochs: int = 4, *, resume: bool = False, **changes: Any) -> dict[str, Any]:
    """Nothing held out, SGD, LSTM: what the tutorials' recipes do."""
    network = {"cell": "lstm", "embedding": 0, "hidden": 8}
    optimizer = OptimizerConfig(name="sgd", learning_rate=0.5, clip_norm=0.1)
    return sing(out, epochs, resume=resume, network=network, optimizer=optimizer, valid_fraction=0.0, **changes)


RUNS = [translate, sing, sing_random, sing_unheard]


def timeless(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without their times, and without the one about the end of the run."""
    rows = [row for row in read_rows(folder / "metrics.jsonl") if row.get("event") != "end"]
    return [{k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")} for row in rows]


def assert_equal(a: Any, b: Any, where: str = "") -> None:
    """Bit for bit, through dictionaries and lists."""
    assert type(a) is type(b), where
    if isinstance(a, Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            if key not in ("seconds", "validated_at_s"):
                assert_equal(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_equal(x, y, f"{where}[{i}]")
    else:
        assert a == b or (a != a and b != b), where


def assert_same_run(a: Path, b: Path) -> None:
    assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()
    assert timeless(a) == timeless(b)
    assert len(timeless(a)) >= 4
    assert_equal(snapshot.load(a), snapshot.load(b))
    configs = [checkpoints.read(folder).config for folder in (a, b)]
    assert_equal(dict(configs[0].scores), dict(configs[1].scores))
    assert configs[0].scores


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[tuple[int, int]]:
    """End the run behind its snapshot `number`, from 1; (epoch, batch) of every snapshot."""
    original, seen = snapshot.save, []

    def save(folder: Path, state: dict[str, Any]) -> None:
        original(folder, state)
        seen.append((state["progress"]["epoch"], state["progress"]["batch"]))
        if len(seen) == number:
            raise Killed

    monkeypatch.setattr(snapshot, "save", save)
    monkeypatch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
    return seen
