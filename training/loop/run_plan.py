"""The learning rate of an update, the planned progress of a run, and its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from training.config.run_config import LoopConfig, OptimizerConfig
from training.config.schedules import SCHEDULES
from training.errors import pluralize
from training.progress import Progress

MAX_WARMUP_FRACTION = 0.25  # of the run: a run shorter than its recipe's warm-up would otherwise never leave it
CLOCK_CHECKS = 20  # comparisons of the plan with the clock within the time limit
LEAST_VALIDATIONS = 5  # within a time limit, the one at the end included
MAX_CLOSING_FRACTION = 0.5  # of the time limit that is kept free for what follows the last update
RISING_VALIDATIONS = 3  # that end a run
DIVERGENCE_ADVICE = "lower the learning rate, warm up longer or clip more tightly, and start anew"
CLOCK_TOLERANCE = 0.05  # relative deviation beyond which the plan follows the clock


def learning_rate(config: OptimizerConfig, update: int, progress: float) -> float:
    """The rate of update 1, 2, ...; progress in [0, 1] is the fraction of the run before it. Warm-up ends after
    `warmup` updates or a quarter of the run, whichever is first."""
    warmup = max(config.warmup_updates, 1)
    warm = max(update / warmup, progress / MAX_WARMUP_FRACTION)
    if warm < 1:
        return config.learning_rate * warm
    schedule = SCHEDULES[config.schedule]
    parameters = {name: getattr(config, name) for name in schedule.parameters}
    return config.learning_rate * schedule.factor(min(progress, 1.0), update, **parameters)


@dataclass(slots=True)
class SchedulePlan:
    """The fraction of a run that is over after each update: piecewise linear, with a new slope at each `bend`.

    A plan is saved in every snapshot. A bend follows either from the run alone (batches per epoch, validations) or from
    a clock, and is then saved before the next update uses it. So a resumed run has the same rates as the killed run. A
    bend changes how fast the rest passes, not the current fraction: the plan never jumps."""

    fraction: float = 0.0  # of the run, reached at update `since`
    since: int = 0
    pace: float = 0.0  # fraction per update from then on; 0: unknown yet

    def at(self, update: int) -> float:
        return min(1.0, self.fraction + (update - self.since) * self.pace)

    def remaining(self, update: int) -> float:
        """Updates until the end; inf if the end is unknown."""
        left = 1.0 - self.at(update)
        if not left:
            return 0.0
        return left / self.pace if self.pace else math.inf

    def bend(self, update: int, remaining: float) -> None:
        """Changes the pace: the rest of the plan takes `remaining` updates from `update` on."""
        self.fraction, self.since = self.at(update), update
        self.pace = (1.0 - self.fraction) / max(remaining, 1.0)


@dataclass(slots=True)
class MeasuredPace:
    """The measured speed; saved in every snapshot."""

    checks: int = 0
    seconds: float = 0.0  # at the last check
    update: int = 0
    each_s: float = 0.0  # seconds per update, exponentially averaged; 0: not measured yet
    closing_s: float = 0.0  # estimate of what follows the last update: its validation, scores, publication


class Planner:
    """Plans the length of a run and decides when it ends. Without a time limit the number of batches alone decides, so
    that the plan is reproducible; with a limit the measured speed, and the caller saves before the next update."""

    def __init__(self, optimizer: OptimizerConfig, config: LoopConfig) -> None:
        self.config, self.falls = config, SCHEDULES[optimizer.schedule].falls
        self.warmup, self._warned = optimizer.warmup_updates, False
        self.plan, self.pace = SchedulePlan(), MeasuredPace()

    def limit_reached(self, progress: Progress) -> str:
        """The limit that ends the run, or "" if it goes on."""
        config = self.config
        if progress.epoch >= config.max_epochs:
            return f"the limit of {pluralize(config.max_epochs, 'epoch')}"
        if progress.cooling and self.plan.remaining(progress.update) < 0.5:
            return f"{pluralize(config.patience, 'validation')} without a gain, and a cool-down"
        if config.patience and progress.without_gain >= config.patience and not progress.cooling:
            return f"{pluralize(config.patience, 'validation')} without a gain"
        if progress.rising >= RISING_VALIDATIONS:
            return f"a loss that has risen for {RISING_VALIDATIONS} validations: {DIVERGENCE_ADVICE}"
        if config.max_minutes is not None and progress.seconds >= self.limit_s():
            return f"the limit of {pluralize(config.max_minutes, 'minute')}"
        return ""

    def limit_s(self) -> float:
        """When training ends so that the command keeps its time limit; inf without one."""
        if self.config.max_minutes is None:
            return math.inf
        limit = self.config.max_minutes * 60
        return limit - min(self.pace.closing_s, MAX_CLOSING_FRACTION * limit)

    def asks_for_validation(self, progress: Progress) -> bool:
        """Whether the clock asks for a validation, because epochs are too long for `LEAST_VALIDATIONS` in the limit.
        The caller saves before it validates. The time left is shared evenly, but at most half of it goes to
        validations."""
        missing = LEAST_VALIDATIONS - progress.validations
        if self.config.max_minutes is None or missing < 2 or progress.update <= max(progress.validated, 0):
            return False
        left = self.limit_s() - progress.validated_at_s - (missing - 1) * progress.validation_s
        return progress.seconds - progress.validated_at_s >= max(left / missing, progress.validation_s)

    def closing_note(self, progress: Progress) -> str:
        """A sentence at the end of a run that its time limit ended about what follows, or ""."""
        if self.config.max_minutes is None or not self.pace.closing_s or progress.seconds < self.limit_s():
            return ""
        count = progress.validations
        left_s = max(self.pace.closing_s - progress.validation_s, 0.0)  # the estimate includes the last validation
        beyond_s = progress.seconds + left_s - 60 * self.config.max_minutes
        beyond = f", which end about {beyond_s:.0f} s after the time limit" if beyond_s >= 1 else ""
        few = f" There was time for {pluralize(count, 'validation')} only." if count < LEAST_VALIDATIONS else ""
        return f"Training has ended; scoring and publishing take about {left_s:.0f} s{beyond}.{few}"

    def fraction_done(self, progress: Progress) -> float:
        """The fraction of the run that is over, by the first limit."""
        return min(1.0, max(self.plan.at(progress.update), progress.seconds / self.limit_s()))

    def updates_left(self, progress: Progress, batches: int) -> float:
        """Updates until the first limit; batches: of this epoch."""
        left = self._updates_left_by_epochs(progress, batches)
        if self.config.max_minutes is not None and self.pace.each_s:
            left = min(left, (self.limit_s() - progress.seconds) / self.pace.each_s)
        return max(left, 0.0)

    def begin_epoch(self, progress: Progress, batches: int) -> None:
        """Ignores the clock, because no snapshot follows this decision."""
        if progress.cooling or progress.batch:
            return
        left = self._updates_left_by_epochs(progress, batches)
        # a new epoch never lengthens a plan that the clock has shortened
        if self.config.max_minutes is None or left < self.plan.remaining(progress.update):
            self._bend(progress.update, left)

    def follow_limits(self, progress: Progress, batches: int) -> str:
        """Stretches the rest of the plan to changed limits. Returns a sentence about it, or ""."""
        if progress.cooling:
            return ""
        self._bend(progress.update, self.updates_left(progress, batches))
        done = self.plan.at(progress.update)
        falls = "the learning rate " + ("falls from there over what is left" if done < 1 else "stays at its lowest")
        return f"The limits have changed: {done:.0%} of the schedule is over, and {falls}." if self.falls else ""

    def follow_clock(self, progress: Progress, batches: int) -> bool:
        """Bends the plan to the measured speed if they deviate. Returns whether it did."""
        pace = self.pace
        if self.config.max_minutes is None or progress.cooling or not (self.falls or self.warms_up(progress.update)):
            return False
        due = int(progress.seconds / self.limit_s() * CLOCK_CHECKS)
        if due <= pace.checks:
            return False
        recent_s = (progress.seconds - pace.seconds) / max(progress.update - pace.update, 1)
        each_s = (pace.each_s + recent_s) / 2 if pace.each_s else recent_s
        self.pace = MeasuredPace(due, progress.seconds, progress.update, each_s, pace.closing_s)
        left = max(self.updates_left(progress, batches), 1.0)
        if abs(self.plan.remaining(progress.update) - left) <= CLOCK_TOLERANCE * left:
            return False
        self._bend(progress.update, left)
        return True

    def short_warmup(self, update: int) -> str:
        """A sentence about a warm-up that the plan cuts short, once per session; else ""."""
        if self._warned or not self.plan.pace or not self.warms_up(update):
            return ""
        end = update + (MAX_WARMUP_FRACTION - self.plan.at(update)) / self.plan.pace
        if end >= self.warmup:
            return ""
        self._warned = True
        about = "" if self.config.max_minutes is None else "about "
        over = f"{about}{math.ceil(end):,} update{'' if end <= 1 else 's'}, a quarter of this run"
        return f"The learning rate warms up over {over}, and not over {self.warmup:,} (optimizer.warmup_updates)."

    def cools_down(self, progress: Progress) -> bool:
        """Whether patience has just run out at a high rate; the plan then decays over a fraction of past updates."""
        config = self.config
        ended = 0 < config.patience <= progress.without_gain and not progress.cooling
        if not ended or not config.cooldown or not self.falls:
            return False
        progress.cooling = True
        self._bend(progress.update, min(config.cooldown * progress.update, self.plan.remaining(progress.update)))
        return True

    def warms_up(self, update: int) -> bool:
        return update < self.warmup and self.plan.at(update) < MAX_WARMUP_FRACTION

    def _updates_left_by_epochs(self, progress: Progress, batches: int) -> float:
        accumulate = self.config.gradient_accumulation
        per_epoch = math.ceil(batches / accumulate)
        left = (self.config.max_epochs - progress.epoch) * per_epoch - math.ceil(progress.batch / accumulate)
        return max(float(left), 0.0)

    def _bend(self, update: int, left: float) -> None:
        if not self.falls:  # the plan then only drives the progress bar, which may jump
            self.plan = SchedulePlan(update / max(update + left, 1.0), update)
        self.plan.bend(update, left)
