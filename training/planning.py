"""How long a run will be, as far as is known, and the plan that a falling rate follows to its end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from training.configuration.loop import LoopConfig
from training.configuration.optimizer import OptimizerConfig
from training.schedule import FALLING, LONGEST_WARMUP, Plan

if TYPE_CHECKING:
    from training.progress import Progress

CHECKS = 20  # so often in its time a run sees whether its plan fits the clock
TOLERANCE = 0.05  # and follows the clock where the plan is further off


@dataclass(slots=True)
class Pace:
    """What the clock has shown; saved in every snapshot."""

    checks: int = 0
    seconds: float = 0.0  # at the last one
    update: int = 0
    each_s: float = 0.0  # an update takes, the recent ones weighing most; 0: not measured yet


class Planner:
    """Without a time limit the number of batches alone decides, so that a plan is the same in every run. With one, the
    speed that a clock has measured does; then whoever calls must save before the next update."""

    def __init__(self, optimizer: OptimizerConfig, config: LoopConfig) -> None:
        self.config, self.falls = config, optimizer.schedule in FALLING
        self.warmup, self._told = optimizer.warmup_updates, False
        self.plan, self.pace = Plan(), Pace()

    def updates_left(self, progress: Progress, batches: int) -> float:
        """Until the first limit; batches: of this epoch."""
        left, limit = self._left_of_epochs(progress, batches), self.config.max_minutes
        if limit is not None and self.pace.each_s:
            left = min(left, (limit * 60 - progress.seconds) / self.pace.each_s)
        return max(left, 0.0)

    def begin_epoch(self, progress: Progress, batches: int) -> None:
        """Without a look at the clock: nobody saves what this decides."""
        if progress.cooling or progress.batch:
            return
        left = self._left_of_epochs(progress, batches)
        # what the clock has made shorter, no epoch makes longer
        if self.config.max_minutes is None or left < self.plan.remaining(progress.update):
            self._bend(progress.update, left)

    def follow_limits(self, progress: Progress, batches: int) -> str:
        """They have changed: what is left of the plan takes what they leave. A sentence about it, or ""."""
        if progress.cooling:
            return ""
        self._bend(progress.update, self.updates_left(progress, batches))
        over = f"{self.plan.at(progress.update):.0%} of the schedule is over"
        ended = self.plan.at(progress.update) >= 1
        falls = "the learning rate " + ("stays at its lowest" if ended else "falls from there over what is left")
        return f"The limits have changed: {over}, and {falls}." if self.falls else ""

    def follow_clock(self, progress: Progress, batches: int) -> bool:
        """Whether the plan did not fit the time, so that the rest of it now passes faster or more slowly."""
        limit, pace = self.config.max_minutes, self.pace
        follows = self.falls or self.warms_up(progress.update)
        if limit is None or progress.cooling or not follows:
            return False
        due = int(progress.seconds / (limit * 60) * CHECKS)
        if due <= pace.checks:
            return False
        recent_s = (progress.seconds - pace.seconds) / max(progress.update - pace.update, 1)
        each_s = (pace.each_s + recent_s) / 2 if pace.each_s else recent_s
        self.pace = Pace(due, progress.seconds, progress.update, each_s)
        left = max(self.updates_left(progress, batches), 1.0)
        if abs(self.plan.remaining(progress.update) - left) <= TOLERANCE * left:
            return False
        self._bend(progress.update, left)
        return True

    def warms_up(self, update: int) -> bool:
        return update < self.warmup and self.plan.at(update) < LONGEST_WARMUP

    def short_warmup(self, update: int) -> str:
        """A sentence about a warm-up that the plan ends early, once for a session; "" where there is none."""
        if self._told or not self.plan.pace or not self.warms_up(update):
            return ""
        end = update + (LONGEST_WARMUP - self.plan.at(update)) / self.plan.pace
        if end >= self.warmup:
            return ""
        self._told = True
        about = "" if self.config.max_minutes is None else "about "
        over = f"{about}{math.ceil(end):,} update{'' if end <= 1 else 's'}, a quarter of this run"
        return f"The learning rate warms up over {over}, and not over {self.warmup:,} (optimizer.warmup_updates)."

    def cools_down(self, progress: Progress) -> bool:
        """Whether patience has just ended at a high rate, which falls first, for a share of the updates so far."""
        config = self.config
        ended = 0 < config.patience <= progress.without_gain and not progress.cooling
        if not ended or not config.cooldown or not self.falls:
            return False
        progress.cooling = True
        self._bend(progress.update, min(config.cooldown * progress.update, self.plan.remaining(progress.update)))
        return True

    def is_over(self, progress: Progress) -> bool:
        """Whether a cool-down is."""
        return progress.cooling and self.plan.remaining(progress.update) < 0.5

    def _left_of_epochs(self, progress: Progress, batches: int) -> float:
        """Updates, whatever the time limit."""
        accumulate = self.config.accumulate
        each = math.ceil(batches / accumulate)
        left = (self.config.max_epochs - progress.epoch) * each - math.ceil(progress.batch / accumulate)
        return max(float(left), 0.0)

    def _bend(self, update: int, left: float) -> None:
        if not self.falls:  # it is for the progress bar alone, which may jump
            self.plan = Plan(update / max(update + left, 1.0), update)
        self.plan.bend(update, left)
