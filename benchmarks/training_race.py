"""The parts of a training race: the corpus, ours as a contender, the waste of padding, turns."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.peers.plain_training import PlainTraining
from benchmarks.processes import ContenderError, Processes
from models.networks.transformer import Transformer, TransformerConfig
from training.config.run_config import LoopConfig, TranslatorConfig
from training.data.batches import PairBatch
from training.loop.tasks import TranslationTask
from training.loop.trainer import Trainer

Pairs = tuple[list[list[int]], list[list[int]]]
START_S, TURN_S = 120.0, 300.0


def network(config: TranslatorConfig, vocabulary: int) -> Transformer:
    return Transformer(
        TransformerConfig(source_vocabulary=vocabulary, target_vocabulary=vocabulary, **dict(config.network))
    )


def task(config: TranslatorConfig, made: Transformer, pairs: Pairs) -> TranslationTask:
    return TranslationTask(made, pairs, None, config)


def waste(batches: Sequence[PairBatch], pad: int) -> dict[str, float]:
    """The share of padding in the source, in the target and in both together."""
    sides = [[batch.source for batch in batches], [batch.outputs for batch in batches]]
    cells = [sum(part.numel() for part in side) for side in sides]
    real = [sum(int((part != pad).sum()) for part in side) for side in sides]
    shares = [1 - real[0] / cells[0], 1 - real[1] / cells[1], 1 - sum(real) / sum(cells)]
    return dict(zip(("source", "target", "both"), (round(share, 4) for share in shares), strict=True))


class Silent:
    """A report without output."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Some:
    """A task of which every epoch is the next few batches of the corpus."""

    def __init__(self, whole: TranslationTask) -> None:
        self.whole, self.queue, self.epoch = whole, list[PairBatch](), 0
        self.now: list[PairBatch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def take(self, updates: int) -> int:
        """Target tokens of the next epoch, which has so many batches."""
        while len(self.queue) < updates:
            self.queue += list(self.whole.batches(self.epoch))
            self.epoch += 1
        self.now, self.queue = self.queue[:updates], self.queue[updates:]
        return sum(int((batch.outputs != self.whole.pad).sum()) for batch in self.now)

    def batches(self, epoch: int) -> list[PairBatch]:
        return self.now


@dataclass(frozen=True, slots=True)
class Ours:
    """The training loop itself, as the command line starts it."""

    corpus: str
    config: TranslatorConfig
    vocabulary: int
    threads: int
    processes: int = 1

    def open(self) -> Running:
        torch.set_num_threads(self.threads)
        torch.manual_seed(1)
        return Running(self)


class Running:
    def __init__(self, setting: Ours) -> None:
        self.setting = setting
        pairs = json.loads(Path(setting.corpus).read_text(encoding="utf-8"))
        self.task = Some(task(setting.config, network(setting.config, setting.vocabulary), pairs))

    def answer(self, updates: int) -> tuple[float, int]:
        """Seconds and target tokens of so many updates."""
        tokens = self.task.take(updates)
        config = self.setting.config
        limits: LoopConfig = replace(config.loop, max_epochs=1, max_minutes=None, patience=0)
        started = time.perf_counter()
        report: Any = Silent()
        Trainer(self.task, config.optimizer, limits, folder=None, report=report, device=torch.device("cpu")).run()
        return time.perf_counter() - started, tokens


Contender = Ours | PlainTraining


class Turn(NamedTuple):
    name: str
    rates: list[float]  # target tokens/s of each round

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def rate(process: Processes, updates: int) -> float:
    seconds, tokens = process.ask(updates, TURN_S)
    return float(tokens / seconds)


def scanned(settings: dict[str, PlainTraining], updates: int) -> list[Turn]:
    """Each setting alone, the fastest first; what failed is left out and said."""
    results = []
    for name, setting in settings.items():
        try:
            with Processes(setting, START_S) as process:
                rate(process, 2)
                results.append(Turn(name, [rate(process, updates)]))
        except ContenderError as error:
            print(f"{name}: {error}", file=sys.stderr)
    return sorted(results, key=lambda turn: -turn.median)


def interleaved(settings: dict[str, Contender], updates: int, rounds: int) -> dict[str, Turn]:
    """All take turns; the first of each is a warm-up."""
    processes = {name: Processes(setting, START_S) for name, setting in settings.items()}
    try:
        for process in processes.values():
            rate(process, 2)
        turns = {name: Turn(name, []) for name in processes}
        for _ in range(rounds):
            for name, process in processes.items():
                turns[name].rates.append(rate(process, updates))
        return turns
    finally:
        for process in processes.values():
            process.close()
