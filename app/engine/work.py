"""What the engine did for one request, over all that it was asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from app.engine.jobs import Usage


@dataclass(slots=True)
class Work:
    """sequences: those that were answered. queued_s, first_token_s: the longest of any of them; total_s: the calls'
    together, each as long as its longest sequence. failed: the code of the last error, which may have been tried
    again; broken: whether it ended a stream that had begun, so that no status tells of it."""

    sequences: int = 0
    model: str = ""
    read_tokens: int = 0
    new_tokens: int = 0
    queued_s: float | None = None
    first_token_s: float | None = None
    total_s: float | None = None
    failed: str = ""
    broken: bool = False

    def add(self, model: str, sequences: int, usages: Sequence[Usage]) -> None:
        """The answer to one call; usages: at least one."""
        self.model = model
        self.sequences += sequences
        for each in usages:
            self.read_tokens += each.read_tokens
            self.new_tokens += each.new_tokens
            self.queued_s = _longer(self.queued_s, each.queued_s)
            self.first_token_s = _longer(self.first_token_s, each.first_token_s)
        self.total_s = (self.total_s or 0.0) + max(each.total_s for each in usages)


def _longer(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


CURRENT: ContextVar[Work | None] = ContextVar("work", default=None)  # of the request in whose task this is read
