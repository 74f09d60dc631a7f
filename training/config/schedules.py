"""Learning-rate schedules: what the rate does between its warm-up and the end of the run.

To add one, write its function and its row of `SCHEDULES`, and its curve in `tests/training/loop/test_run_plan.py`. The
option's choices, error sentences and help texts and the plan of a run follow from the row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple


class Schedule(NamedTuple):
    """factor(progress, update, **parameters): the rate as a fraction of its peak. progress in [0, 1]: the fraction of
    the run before the update. update: from 1. parameters: the options of `OptimizerConfig` that the function takes.
    falls: the rate follows the plan of the run, and is lowest at its end. sentence: for help texts."""

    factor: Callable[..., float]
    parameters: tuple[str, ...]
    falls: bool
    sentence: str


def constant(progress: float, update: int) -> float:
    return 1.0


def inverse_sqrt(progress: float, update: int, *, warmup_updates: int) -> float:
    return math.sqrt(min(1.0, max(warmup_updates, 1) / update))


def cosine(progress: float, update: int, *, final_fraction: float) -> float:
    return between(final_fraction, (1 + math.cos(math.pi * progress)) / 2)


def linear(progress: float, update: int, *, final_fraction: float) -> float:
    return between(final_fraction, 1 - progress)


def trapezoid(progress: float, update: int, *, final_fraction: float, decay_fraction: float) -> float:
    return between(final_fraction, min(1.0, (1 - progress) / decay_fraction))


def wsd(progress: float, update: int, *, final_fraction: float, decay_fraction: float) -> float:
    """Hägele et al. 2024, arXiv 2405.18392: a cool-down by 1 - sqrt ends lower than a linear one."""
    return between(final_fraction, 1 - math.sqrt(max(0.0, 1 - (1 - progress) / decay_fraction)))


def between(final_fraction: float, height: float) -> float:
    """height 1: the peak; 0: `final_fraction` of it."""
    return final_fraction + (1 - final_fraction) * height


SCHEDULES = {
    "constant": Schedule(constant, (), False, "stays at the peak"),
    "inverse_sqrt": Schedule(inverse_sqrt, ("warmup_updates",), False, "falls with 1/sqrt(update)"),
    "cosine": Schedule(cosine, ("final_fraction",), True, "falls along a cosine to final_fraction of the peak"),
    "linear": Schedule(linear, ("final_fraction",), True, "falls linearly to final_fraction of the peak"),
    "trapezoid": Schedule(
        trapezoid,
        ("final_fraction", "decay_fraction"),
        True,
        "stays at the peak, and falls linearly in the last decay_fraction of the run",
    ),
    "wsd": Schedule(
        wsd,
        ("final_fraction", "decay_fraction"),
        True,
        "(warm-up, stable, decay) stays at the peak, and falls by 1 - sqrt in the last decay_fraction of the run",
    ),
}
SENTENCES = "; ".join(f"{name} {row.sentence}" for name, row in SCHEDULES.items())
if TYPE_CHECKING:
    ScheduleName = str
else:
    ScheduleName = Literal[tuple(SCHEDULES)]  # the choices of the option
