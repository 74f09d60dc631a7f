"""The engine's work for one HTTP request, summed over its translations and generations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from app.engine.interface import GenerationResult, TranslationResult, Usage

P = ParamSpec("P")
R = TypeVar("R", list[TranslationResult], GenerationResult)


@dataclass(slots=True)
class RequestWork:
    """Totals of one HTTP request. queued_s, first_token_s: the maximum over sequences; total_s: the sum over calls.
    failed: the last error's code, even if a retry succeeded; broken: it ended an open stream (no status shows it)."""

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
        """Adds the answer of one call; usages: at least one."""
        self.model = model
        self.sequences += sequences
        for usage in usages:
            self.read_tokens += usage.read_tokens
            self.new_tokens += usage.new_tokens
            if usage.queued_s is not None:
                self.queued_s = max(usage.queued_s, self.queued_s or 0.0)
            if usage.first_token_s is not None:
                self.first_token_s = max(usage.first_token_s, self.first_token_s or 0.0)
        self.total_s = (self.total_s or 0.0) + max(usage.total_s for usage in usages)


CURRENT_WORK: ContextVar[RequestWork | None] = ContextVar("work", default=None)  # of this task's HTTP request


def recorded(task: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Decorates an engine task: its answers are added to the work of the current HTTP request."""

    @wraps(task)
    async def run(*args: P.args, **kwargs: P.kwargs) -> R:
        work = CURRENT_WORK.get()
        if work is None:
            return await task(*args, **kwargs)
        try:
            answer = await task(*args, **kwargs)
        except Exception as error:
            work.failed = str(getattr(error, "code", type(error).__name__))
            raise
        if isinstance(answer, GenerationResult):
            work.add(answer.model, len(answer.continuations), [answer.usage])
        elif answer:
            work.add(answer[0].model, len(answer), [translation.usage for translation in answer])
        return answer

    return run
