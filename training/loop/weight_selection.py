"""The weights that a run keeps: a moving average, and the best validated weights."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from training import snapshot

Weights = dict[str, Tensor]


class MovingAverage:
    """An exponential moving average of the weights (Polyak and Juditsky 1992; as in Marian's exponential smoothing):
    cheaper than averaging checkpoints and, unlike a decaying rate, without a known end. decay 0: no average."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay = network, decay
        self.values: list[Tensor] = []
        self.restart()

    def restart(self) -> None:
        self.values = [p.detach().clone() for p in self.network.parameters()] if self.decay else []

    @torch.no_grad()
    def update(self, number: int) -> None:
        """Call after update `number` (from 1). The first updates weigh more, so that the initial weights soon fade."""
        if self.decay:
            decay = min(self.decay, (1 + number) / (10 + number))
            torch._foreach_lerp_(self.values, [p.detach() for p in self.network.parameters()], 1 - decay)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Loads the average into the network inside the block and restores its own weights afterwards."""
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
    """The `count` best validated weights, each in a file of its own beside the snapshot, written once. A snapshot lists
    them (`kept`). `sweep` removes a file only after a snapshot without it is in place, so that a resume finds all files
    of its snapshot. Without a folder the weights stay in memory. stores=False: only tracks which weights are best."""

    def __init__(self, folder: Path | None, count: int, *, stores: bool = True) -> None:
        self.folder, self.count, self.stores = folder, max(count, 1), stores
        self.kept: list[tuple[float, int]] = []  # (cost, update), best first
        self._memory: dict[int, Weights] = {}

    def offer(self, cost: float, update: int, weights: Callable[[], Weights]) -> bool:
        """Keeps `weights()` if among the best; returns whether it is the best (never for nan; ties: the earlier)."""
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
        """The mean of all kept weights, in float64; integers come from the best."""
        best, *others = (self._read(update) for _, update in self.kept)
        return {
            name: sum((w[name].double() for w in others), value.double()).div(len(self.kept)).to(value.dtype)
            if value.is_floating_point()
            else value
            for name, value in best.items()
        }

    def restore(self, kept: list[tuple[float, int]]) -> None:
        """Raises TrainingError if a file is missing or broken."""
        self.kept = [(cost, update) for cost, update in kept]
        if self.stores:
            for _, update in self.kept:
                self._read(update)

    def sweep(self) -> None:
        """Removes weights that the latest snapshot does not list."""
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
