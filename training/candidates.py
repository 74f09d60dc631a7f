"""The weights that a run may end with: the best validated ones, and their mean."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from training import snapshot

Weights = dict[str, Tensor]


class Candidates:
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


class Listed(Candidates):
    """Of a process that shares a run and leaves the files to another: it only knows which weights are the best."""

    def restore(self, kept: list[tuple[float, int]]) -> None:
        self.kept = [(cost, update) for cost, update in kept]

    def sweep(self) -> None:
        """There is nothing to remove."""

    def _write(self, update: int, weights: Callable[[], Weights]) -> None:
        """The other process does."""
