"""What ends a training command with one sentence and exit code 2."""

from __future__ import annotations

from collections.abc import Sequence


class TrainingError(ValueError):
    """The user can mend it: the message names the file or option, what is wrong, and the way out."""


class CannotStart(TrainingError):
    """All that is wrong with a command's options, in one list."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("This cannot start: " + "; ".join(self.problems) + ".")
