"""Validation: what is measured on held-out data, and by what measurement the weights to keep are chosen."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from training.configuration.loop import LoopConfig

Sample = tuple[str, str, str]
"""Source, reference, hypothesis."""


class Quality(NamedTuple):
    """What translations say beside the loss. bleu: None where nothing is chosen by it."""

    bleu: float | None = None
    samples: tuple[Sample, ...] = ()


class Validation(NamedTuple):
    """loss: nats per held-out token. bleu: of greedy translations, where it was asked for."""

    loss: float
    bleu: float | None = None

    def cost(self, choose_by: str) -> float:
        """What is least for the best weights; nan where there is nothing to choose by."""
        if choose_by == "loss":
            return self.loss
        return math.nan if self.bleu is None else -self.bleu

    def __str__(self) -> str:
        bleu = "" if self.bleu is None else f" and BLEU {self.bleu:.2f}"
        return f"held-out loss {self.loss:.4f} nats{bleu}"


Judge = Callable[[], Quality]


def is_due(config: LoopConfig, update: int, epoch: int | None) -> bool:
    """epoch: the number of finished ones at the end of one, None inside of one."""
    if config.validate_every_updates and update and update % config.validate_every_updates == 0:
        return True
    if epoch is None or not config.validate_every_epochs:
        return False
    return epoch % config.validate_every_epochs == 0 or epoch == config.max_epochs


@contextlib.contextmanager
def apart(device: torch.device) -> Iterator[None]:
    """Training's random numbers go on behind the block as if it had drawn none."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.inference_mode():
        yield
