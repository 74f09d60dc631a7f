"""Progress bars of the phases before training."""

from __future__ import annotations

import sys
from typing import Protocol

from tqdm import tqdm

from training.distributed.torchrun import environment_rank

SHOWN_AFTER_S = 3.0  # small corpora need no bar


class ProgressBar(Protocol):
    n: float
    total: float | None

    def update(self, n: float = 1) -> bool | None: ...
    def __enter__(self) -> ProgressBar: ...
    def __exit__(self, *error: object) -> None: ...


def progress_bar(task: str, total: int | None, unit: str = "pairs") -> ProgressBar:
    """A bar with the time left, on the terminal of rank 0, that appears after SHOWN_AFTER_S."""
    bar: ProgressBar = tqdm(
        total=total,
        desc=task,
        unit=f" {unit}" if unit != "B" else unit,
        unit_scale=True,
        delay=SHOWN_AFTER_S,
        mininterval=0.3 if sys.stderr.isatty() else 15.0,
        disable=environment_rank() != 0,
        leave=False,
    )
    return bar
