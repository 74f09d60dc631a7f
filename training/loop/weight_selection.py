"""Which weights a run keeps: averaged, validated, and the best of them chosen."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from training.config.run_config import LoopConfig
from training.distributed.process_group import Workers
from training.loop import snapshot
from training.loop.progress import Outcome, Progress, Quality, Validation, Validator, isolated_random_state
from training.loop.tasks import Task


class MovingAverage:
    """decay 0 keeps no average: `applied` is then the network as it is."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay = network, decay
        self.values: list[Tensor] = []
        self.restart()

    def restart(self) -> None:
        """From the network as it is."""
        self.values = [p.detach().clone() for p in self.network.parameters()] if self.decay else []

    @torch.no_grad()
    def update(self, number: int) -> None:
        """After update `number` (from 1). The first updates weigh more, so that the start is soon forgotten."""
        if self.decay:
            decay = min(self.decay, (1 + number) / (10 + number))
            torch._foreach_lerp_(self.values, [p.detach() for p in self.network.parameters()], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The network holds the average inside the block and its own weights again after it."""
        if not self.decay:
            yield
            return
        own = [p.detach().clone() for p in self.network.parameters()]
        self._assign(self.values)
        try:
            yield
        finally:
            self._assign(own)

    @torch.no_grad()
    def _assign(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.network.parameters(), values, strict=True):
            parameter.copy_(value)


Weights = dict[str, Tensor]


class BestWeights:
    """The `count` best validated weights, each in a file of its own beside the snapshot, where it is written once.

    A snapshot lists them (`kept`). A file is removed only when a snapshot without it is in place (`sweep`), so that
    the one that a killed run goes on from finds all of its files. Without a folder they stay in memory.
    """

    def __init__(self, folder: Path | None, count: int) -> None:
        self.folder, self.count = folder, max(count, 1)
        self.kept: list[tuple[float, int]] = []  # cost and update, best first
        self._memory: dict[int, Weights] = {}

    def offer(self, cost: float, update: int, weights: Callable[[], Weights]) -> bool:
        """Keep what `weights` returns if it is among the best; whether it is the best. A cost that is no number never
        is, and of equal ones the earlier is."""
        if math.isnan(cost):
            return False
        kept = sorted([*self.kept, (cost, update)])[: self.count]
        if (cost, update) in kept:
            self._write(update, weights)
        self.kept = kept
        if self.folder is None:
            self.sweep()
        return kept[0] == (cost, update)

    def best(self) -> Weights | None:
        return self._read(self.kept[0][1]) if self.kept else None

    def mean(self) -> Weights:
        """Of all that are kept, in float64; integers are the best one's."""
        each = [self._read(update) for _, update in self.kept]
        return {
            name: sum((w[name].double() for w in each[1:]), value.double()).div(len(each)).to(value.dtype)
            if value.is_floating_point()
            else value
            for name, value in each[0].items()
        }

    def named(self) -> str:
        updates = ", ".join(f"{update:,}" for update in sorted(update for _, update in self.kept))
        return f"the mean of the {len(self.kept)} best validated weights (updates {updates})"

    def restore(self, kept: list[tuple[float, int]]) -> None:
        """TrainingError if a file is missing or broken."""
        self.kept = [(cost, update) for cost, update in kept]
        for _, update in self.kept:
            self._read(update)

    def sweep(self) -> None:
        """Remove what the snapshot that has just been written does not list."""
        listed = {update for _, update in self.kept}
        self._memory = {update: weights for update, weights in self._memory.items() if update in listed}
        if self.folder:
            names = {self._path(update).name for update in listed}
            for path in self._path(0).parent.glob("best-*"):
                if path.name not in names:
                    with contextlib.suppress(OSError):
                        path.unlink()

    def _path(self, update: int) -> Path:
        assert self.folder is not None
        return self.folder / snapshot.FOLDER / f"best-{update}.pt"

    def _write(self, update: int, weights: Callable[[], Weights]) -> None:
        if self.folder is None:
            self._memory[update] = weights()
        else:
            snapshot.write(self._path(update), weights())

    def _read(self, update: int) -> Weights:
        return self._memory[update] if self.folder is None else snapshot.read(self._path(update))


class BestWeightsOfRank0(BestWeights):
    """Of a process that shares a run and leaves the files to another: it only knows which weights are the best."""

    def restore(self, kept: list[tuple[float, int]]) -> None:
        self.kept = [(cost, update) for cost, update in kept]

    def sweep(self) -> None:
        """There is nothing to remove."""

    def _write(self, update: int, weights: Callable[[], Weights]) -> None:
        """The other process does."""


class WeightSelection:
    """Progress is the loop's: what is found here is written there. folder: of the run, or None. judge: translates
    held-out sentences, where the task is to translate."""

    def __init__(
        self,
        task: Task,
        config: LoopConfig,
        *,
        folder: Path | None,
        device: torch.device,
        judge: Validator | None,
        workers: Workers,
    ) -> None:
        self.task, self.network, self.choose_by = task, task.network, config.choose_by
        self.device, self.judge, self.workers = device, judge, workers
        self.average = MovingAverage(task.network, config.average_decay)
        self.candidates = (BestWeights if workers.writes else BestWeightsOfRank0)(folder, config.average_best)

    def measured(self) -> tuple[Validation | None, Quality]:
        """Of the averaged weights as they are; None where nothing is held out."""
        with self.average.applied():
            return self.workers.given(self._measure)

    def offer(self, measured: Validation, update: int) -> bool:
        """Whether the weights, of which this was measured, are the best so far."""
        return self.candidates.offer(measured.cost(self.choose_by), update, self._weights)

    def go_back(self) -> None:
        """To the best weights: what came after them was no gain, and the cool-down must not start from that."""
        best = self.workers.given(self.candidates.best)
        if best is not None:
            self.network.load_state_dict(best)
            self.average.restart()

    def outcome(self, ended_by: str, progress: Progress, losses: list[float]) -> Outcome:
        """The best validated weights, or the mean of several where it validates better; on the process that writes."""
        outcome = Outcome(self._weights(), progress, ended_by, losses)
        if not self.workers.writes:
            return outcome
        kept, best = self.candidates.kept, self.candidates.best()
        if best is None:
            return outcome
        outcome.weights, outcome.chosen = best, f"the weights of update {progress.best_update:,}"
        outcome.validation = Validation(progress.best_loss, progress.best_bleu)
        if len(kept) > 1:
            mean = self.candidates.mean()
            measured = self._measured_with(mean)
            if measured and measured.cost(self.choose_by) < kept[0][0]:
                outcome.weights, outcome.validation, outcome.chosen = mean, measured, self.candidates.named()
        return outcome

    def _measure(self) -> tuple[Validation | None, Quality]:
        self.network.eval()
        with isolated_random_state(self.device):
            loss = self.task.validate()
            if loss is None:
                return None, Quality()
            quality = self.judge() if self.judge else Quality()
        return Validation(loss, quality.bleu), quality

    def _weights(self) -> dict[str, Tensor]:
        """A copy of the averaged weights."""
        with self.average.applied():
            return {name: t.detach().clone() for name, t in self.network.state_dict().items()}

    def _measured_with(self, weights: dict[str, Tensor]) -> Validation | None:
        own = {name: t.clone() for name, t in self.network.state_dict().items()}
        self.network.load_state_dict(weights)
        measured, _ = self._measure()
        self.network.load_state_dict(own)
        return measured
