"""Learning-rate schedules, and the plan that says how much of a run is over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from training.configuration.optimizer import OptimizerConfig

LONGEST_WARMUP = 0.25  # of a run: one that is shorter than its recipe's warm-up would end before it has begun
FALLING = ("cosine", "linear", "trapezoid")  # what a schedule falls by is the plan


def rate(config: OptimizerConfig, update: int, progress: float) -> float:
    """The learning rate of update 1, 2, ...; progress in [0, 1] is how much of the run was over before it. Warm-up ends
    after so many updates or a quarter of the run, whichever comes first."""
    warmup = max(config.warmup_updates, 1)
    warm = max(update / warmup, progress / LONGEST_WARMUP)
    if warm < 1:
        return config.rate * warm
    if config.schedule == "inverse_sqrt":
        return config.rate * math.sqrt(min(1.0, warmup / update))
    if config.schedule not in FALLING:
        return config.rate
    return config.rate * (config.final_fraction + (1 - config.final_fraction) * _height(config, min(progress, 1.0)))


def _height(config: OptimizerConfig, progress: float) -> float:
    """From 1 at the start to 0 at the end."""
    if config.schedule == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    if config.schedule == "linear":
        return 1 - progress
    return min(1.0, (1 - progress) / config.fall_share)


@dataclass(slots=True)
class Plan:
    """How much of a run is over after each update: a line whose slope changes only where `bend` is called.

    A plan is saved in every snapshot, and what bends it is either decided by the run alone (how many batches an
    epoch has, validations) or, where a clock decides, saved at once before the next update follows it. So a resumed
    run has the rates that the killed one had. It never jumps: a bend changes how fast the rest passes, not where
    the run stands.
    """

    fraction: float = 0.0  # of the run, over at update `since`
    since: int = 0
    pace: float = 0.0  # more of it with each update from then on; 0: nothing is known yet

    def at(self, update: int) -> float:
        return min(1.0, self.fraction + (update - self.since) * self.pace)

    def remaining(self, update: int) -> float:
        """Updates until the end; inf where no end is known."""
        left = 1.0 - self.at(update)
        if not left:
            return 0.0
        return left / self.pace if self.pace else math.inf

    def bend(self, update: int, remaining: float) -> None:
        """From `update` on, the rest of the plan takes so many more updates."""
        self.fraction, self.since = self.at(update), update
        self.pace = (1.0 - self.fraction) / max(remaining, 1.0)
