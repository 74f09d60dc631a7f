"""Progress bars: those of the phases before training, and the bar that all others are."""

from __future__ import annotations

import sys
from typing import IO, Any

from tqdm import tqdm

from training.distributed.torchrun import environment_rank

SHOWN_AFTER_S = 3.0  # small corpora need no bar
LINE_EVERY_S = 15.0  # in a log file
_NOT_AT_ONCE = 1e-9  # seconds; tqdm draws a bar without a delay before anything has happened


class ProgressBar(tqdm):  # type: ignore[misc]
    """tqdm's bar on a terminal. Elsewhere, as in a log file, whole lines without carriage returns and cursor codes: one
    every LINE_EVERY_S, and the last one of a bar that stays."""

    disable: bool

    def __init__(self, *, file: IO[str] | None = None, delay: float = 0.0, **options: Any) -> None:
        stream = sys.stderr if file is None else file
        self.on_terminal = stream.isatty()
        super().__init__(
            file=stream,
            delay=delay if self.on_terminal else delay or _NOT_AT_ONCE,
            mininterval=0.3 if self.on_terminal else LINE_EVERY_S,
            ascii=not self.on_terminal,
            **options,
        )

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        if self.on_terminal:
            return bool(super().display(msg, pos))
        self.fp.write(f"{self}\n")
        self.fp.flush()
        return True

    def note(self, text: str) -> None:
        """Writes a line above the bar."""
        if self.on_terminal:
            self.write(text, file=self.fp)
        else:
            self.fp.write(f"{text}\n")
            self.fp.flush()

    def close(self) -> None:
        if not self.on_terminal and not self.disable:
            if self.leave:
                self.display()
            self.disable = True  # so that tqdm does not end the line, which has ended
        super().close()


def progress_bar(
    task: str, total: int | None, unit: str = "pairs", *, done: int = 0, shown: bool = True
) -> ProgressBar:
    """A bar with the time left, on the terminal of rank 0, that appears after SHOWN_AFTER_S. done: of an earlier run
    that this one resumes."""
    return ProgressBar(
        total=total,
        initial=done,
        desc=task,
        unit=f" {unit}" if unit != "B" else unit,
        unit_scale=True,
        delay=SHOWN_AFTER_S,
        disable=not shown or environment_rank() != 0,
        leave=False,
    )
