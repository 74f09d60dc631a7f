"""The parts of a training race: the corpus, ours as a contender, the waste of padding, turns."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from benchmarks.peers.plain_training import PlainTraining
from benchmarks.processes import ContenderError, Processes
from benchmarks.race import in_turns
from models.networks.transformer import Transformer, TransformerConfig
from training.config.run_config import TranslatorConfig
from training.data.batches import LazyBatches, PairBatch
from training.data.stored_corpus import TokenArray
from training.loop.tasks import TranslationTask
from training.loop.trainer import Trainer

Pairs = tuple[list[list[int]], list[list[int]]]
START_S, TURN_S = 120.0, 300.0


def network(config: TranslatorConfig, vocabulary: int) -> Transformer:
    return Transformer(
        TransformerConfig(source_vocabulary=vocabulary, target_vocabulary=vocabulary, **dict(config.network))
    )


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


class Stretch(Sequence[PairBatch]):
    """`count` batches of an epoch from `first` on, each made when it is read."""

    def __init__(self, batches: Sequence[PairBatch], first: int, count: int) -> None:
        self.batches, self.first, self.size = batches, first, min(count, len(batches) - first)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> PairBatch: ...
    @overload
    def __getitem__(self, index: slice) -> list[PairBatch]: ...
    def __getitem__(self, index: int | slice) -> PairBatch | list[PairBatch]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self.batches[self.first + index]


class Stretches:
    """A task whose epochs are stretches of the first epoch of `whole`, one after the other. targets: its training
    pairs' target sides."""

    def __init__(self, whole: TranslationTask, targets: TokenArray) -> None:
        self.whole, self.targets, self.epoch = whole, targets, whole.batches(0)
        self.next = Stretch(self.epoch, 0, 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    def batches(self, epoch: int) -> Stretch:
        return self.next

    def advance(self, updates: int) -> int:
        """Moves on to the next `updates` batches, or the first ones again; their target tokens, starts left out."""
        first = self.next.first + len(self.next)
        self.next = Stretch(self.epoch, first if first + updates <= len(self.epoch) else 0, updates)
        assert isinstance(self.epoch, LazyBatches)
        rows = np.concatenate([self.epoch.groups[self.next.first + i] for i in range(len(self.next))])
        return int(self.targets.lengths[rows].sum()) - len(rows)


def stretches(config: TranslatorConfig, made: Transformer, pairs: Pairs) -> Stretches:
    arrays = TokenArray.of(pairs[0]), TokenArray.of(pairs[1])
    return Stretches(TranslationTask(made, arrays, None, config), arrays[1])


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
        made = network(setting.config, setting.vocabulary)
        self.task = stretches(setting.config, made, pairs)

    def answer(self, updates: int) -> tuple[float, int]:
        """Seconds and target tokens of so many updates."""
        tokens, config = self.task.advance(updates), self.setting.config
        limits = replace(config.loop, max_epochs=1, max_minutes=None, patience=0)
        task: Any = self.task
        report: Any = Silent()
        started = time.perf_counter()
        Trainer(task, config.optimizer, limits, folder=None, report=report, device=torch.device("cpu")).run()
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
        measures = {name: lambda _, process=process: rate(process, updates) for name, process in processes.items()}
        return {name: Turn(name, rates) for name, rates in in_turns(rounds, measures).items()}
    finally:
        for process in processes.values():
            process.close()
