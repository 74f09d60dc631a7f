"""An exponential moving average of the weights (Polyak and Juditsky 1992; as in Marian's exponential smoothing).

It is cheaper than averaging saved checkpoints and, unlike a falling learning rate, needs no end in sight.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


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
