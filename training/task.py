"""What the loop trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor, nn


class Task(Protocol):
    """What is trained. Batches of an epoch depend on (seed, epoch) alone."""

    @property
    def network(self) -> nn.Module: ...

    def batches(self, epoch: int) -> Sequence[Any]: ...

    def loss(self, batch: Any) -> tuple[Tensor, int]:
        """The mean loss of a batch to descend, and how many tokens it counts."""
        ...

    def validate(self) -> float | None:
        """Nats per token on the held-out set; None where there is none."""
        ...

    def part(self, batch: Any, rank: int, count: int) -> Any | None:
        """Rows rank, rank + count, ... of a batch; None where there are none."""
        ...

    def carried(self) -> dict[str, Tensor]:
        """What goes from batch to batch beside the weights; a batch's rows are dimension 1."""
        ...

    def restore(self, carried: dict[str, Tensor]) -> None: ...
