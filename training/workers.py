"""The processes that share one training run, as the rest of a run sees them: one process alone, or a `group.Group`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


class Workers:
    """One process alone: what it decides and what it sums is what it has."""

    rank, count, local_rank, machines = 0, 1, 0, 1
    together = True  # whether the next backward pass brings the gradients of all processes together

    @property
    def writes(self) -> bool:
        """Whether this is the process that reads and writes the run's folder and talks."""
        return self.rank == 0

    def first(self, value: float) -> float:
        """Rank 0's value, for what clocks decide."""
        return value

    def sum(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes; on a GPU nobody waits for it."""
        return value

    def gather(self, value: Value) -> list[Value]:
        """The values of all processes, by rank; on every process."""
        return [value]

    def given(self, make: Callable[[], Value]) -> Value:
        """What `make` returns on rank 0, the only one to call it. However long it takes, the others wait."""
        return make()

    def say(self, sentence: str) -> None:
        """Why the run ends, on standard error; of all processes' sentences only the first that is said."""
        print(sentence, file=sys.stderr, flush=True)

    def note(self, sentence: str) -> None:
        """What a run says on its way, once for all processes. It is no last word: see `say`."""
        if self.writes:
            print(sentence, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Of this process, after `training.farewell.peer_is_gone`."""

    def device(self, kind: str) -> torch.device:
        """The CPU, or the GPU that is this process's own."""
        return torch.device(kind)

    def leave(self) -> None:
        """No word to the others after this."""
