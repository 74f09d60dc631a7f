"""Which weights a run keeps: averaged, validated, and the best of them chosen."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from training.config.run_config import LoopConfig
from training.distributed.process_group import Workers
from training.loop import snapshot
from training.loop.progress import Outcome, Progress, Quality, Validation, Validator
from training.loop.tasks import AnyTask

Weights = dict[str, Tensor]


class MovingAverage:
    """An exponential moving average of the weights (Polyak and Juditsky 1992; as in Marian's exponential smoothing).
    It is cheaper than averaging saved checkpoints and, unlike a falling learning rate, needs no known end.

    decay 0 keeps no average: `applied` is then the network as it is."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay = network, decay
        self.values: list[Tensor] = []
        self.restart()

    def restart(self) -> None:
        """From the network as it is."""
        self.values = [p.detach().clone() for p in self.network.parameters()] if self.decay else []

    @torch.no_grad()
    def update(self, number: int) -> None:
        """After update `number` (from 1). The first updates weigh more, so that the initial weights soon fade."""
        if self.decay:
            decay = min(self.decay, (1 + number) / (10 + number))
            torch._foreach_lerp_(self.values, [p.detach() for p in self.network.parameters()], 1 - decay)

    @contextlib.contextmanager
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


class BestWeights:
    """The `count` best validated weights, each in a file of its own beside the snapshot, where it is written once.

    A snapshot lists them (`kept`). A file is removed only when a snapshot without it is in place (`sweep`), so that
    the snapshot that a killed run resumes from finds all of its files. Without a folder they stay in memory. A process
    that does not write (stores=False) only knows which weights are the best.
    """

    def __init__(self, folder: Path | None, count: int, *, stores: bool = True) -> None:
        self.folder, self.count, self.stores = folder, max(count, 1), stores
        self.kept: list[tuple[float, int]] = []  # cost and update, best first
        self._memory: dict[int, Weights] = {}

    def offer(self, cost: float, update: int, weights: Callable[[], Weights]) -> bool:
        """Keep what `weights` returns if it is among the best; whether it is the best. A cost of nan never is, and of
        equal costs the earlier is."""
        if math.isnan(cost):
            return False
        kept = sorted([*self.kept, (cost, update)])[: self.count]
        if self.stores and (cost, update) in kept:
            if self.folder is None:
                self._memory[update] = weights()
            else:
                snapshot.write(self._path(update), weights())
        self.kept = kept
        if self.folder is None:
            self.sweep()
        return kept[0] == (cost, update)

    def best(self) -> Weights | None:
        return self._read(self.kept[0][1]) if self.kept else None

    def mean(self) -> Weights:
        """Of all that are kept, in float64; integers are the best one's."""
        best, *others = (self._read(update) for _, update in self.kept)
        return {
            name: sum((w[name].double() for w in others), value.double()).div(len(self.kept)).to(value.dtype)
            if value.is_floating_point()
            else value
            for name, value in best.items()
        }

    def restore(self, kept: list[tuple[float, int]]) -> None:
        """TrainingError if a file is missing or broken."""
        self.kept = [(cost, update) for cost, update in kept]
        if self.stores:
            for _, update in self.kept:
                self._read(update)

    def sweep(self) -> None:
        """Remove what the snapshot that has just been written does not list."""
        listed = {update for _, update in self.kept}
        self._memory = {update: weights for update, weights in self._memory.items() if update in listed}
        if self.folder and self.stores:
            names = {self._path(update).name for update in listed}
            for path in self._path(0).parent.glob("best-*"):
                if path.name not in names:
                    with contextlib.suppress(OSError):
                        path.unlink()

    def _path(self, update: int) -> Path:
        assert self.folder is not None
        return self.folder / snapshot.FOLDER / f"best-{update}.pt"

    def _read(self, update: int) -> Weights:
        return self._memory[update] if self.folder is None else snapshot.read(self._path(update))


class WeightSelection:
    """Validates the averaged weights and keeps the best. folder: of the run, or None. validator: writes sample texts,
    and translates held-out sentences where weights are chosen by BLEU."""

    def __init__(
        self,
        task: AnyTask,
        config: LoopConfig,
        *,
        folder: Path | None,
        device: torch.device,
        validator: Validator | None,
        workers: Workers,
    ) -> None:
        self.task, self.network, self.choose_by = task, task.network, config.choose_by
        self.device, self.validator, self.workers = device, validator, workers
        self.average = MovingAverage(task.network, config.ema_decay)
        self.best = BestWeights(folder, config.average_best, stores=workers.writes)

    def validate(self) -> tuple[Validation | None, Quality]:
        """Of the averaged weights as they are; None where nothing is held out."""
        with self.average.applied():
            return self.workers.on_rank_0(self._measure)

    def offer(self, validation: Validation, update: int) -> bool:
        """Whether the weights that were just validated are the best so far."""
        return self.best.offer(validation.cost(self.choose_by), update, self._averaged_weights)

    def return_to_best(self) -> None:
        """Load the best weights: what came after them was no gain, and the cool-down must not start from that."""
        best = self.workers.on_rank_0(self.best.best)
        if best is not None:
            self.network.load_state_dict(best)
            self.average.restart()

    def outcome(self, ended_by: str, progress: Progress, epoch_losses: list[float]) -> Outcome:
        """The best validated weights, or the mean of several where it validates better; on the process that writes."""
        outcome = Outcome(self._averaged_weights(), progress, ended_by, epoch_losses)
        if not self.workers.writes:
            return outcome
        best = self.best.best()
        if best is None:
            return outcome
        outcome.weights, outcome.chosen = best, f"the weights of update {progress.best_update:,}"
        outcome.validation = Validation(progress.best_loss, progress.best_bleu)
        if len(self.best.kept) > 1:
            mean, last = self.best.mean(), {name: t.clone() for name, t in self.network.state_dict().items()}
            self.network.load_state_dict(mean)
            validation, _ = self._measure()
            self.network.load_state_dict(last)
            if validation and validation.cost(self.choose_by) < self.best.kept[0][0]:
                outcome.weights, outcome.validation = mean, validation
                updates = ", ".join(f"{update:,}" for update in sorted(update for _, update in self.best.kept))
                outcome.chosen = f"the mean of the {len(self.best.kept)} best validated weights (updates {updates})"
        return outcome

    def _measure(self) -> tuple[Validation | None, Quality]:
        self.network.eval()
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.inference_mode():  # training's random numbers stay as they are
            loss = self.task.validate()
            if loss is None:
                return None, Quality()
            quality = self.validator() if self.validator else Quality()
        return Validation(loss, quality.bleu), quality

    def _averaged_weights(self) -> Weights:
        """A copy of the averaged weights."""
        with self.average.applied():
            return {name: t.detach().clone() for name, t in self.network.state_dict().items()}
