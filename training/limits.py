"""The limits of a run, at the first of which it ends, and how near that is."""

from __future__ import annotations

from training.configuration.loop import LoopConfig
from training.planning import Planner
from training.progress import Progress
from training.wording import counted


def reached(config: LoopConfig, progress: Progress, planner: Planner) -> str:
    """By which limit a run ends, or "" if it goes on."""
    if progress.epoch >= config.max_epochs:
        return f"the limit of {counted(config.max_epochs, 'epoch')}"
    if planner.is_over(progress):
        return f"{counted(config.patience, 'validation')} without a gain, and a cool-down"
    if config.patience and progress.without_gain >= config.patience and not progress.cooling:
        return f"{counted(config.patience, 'validation')} without a gain"
    if config.max_minutes is not None and progress.seconds >= config.max_minutes * 60:
        return f"the limit of {counted(config.max_minutes, 'minute')}"
    return ""


def share(config: LoopConfig, progress: Progress, fraction: float) -> float:
    """How much of a run is over, by whichever limit comes first. fraction: of its schedule."""
    limit = config.max_minutes
    return min(1.0, max(fraction, progress.seconds / (limit * 60) if limit else 0.0))
