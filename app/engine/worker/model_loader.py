"""Reads checkpoints in a thread, one after another, while the device keeps serving its other models."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import PreparedModel


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A checkpoint that was read, or its error. began: CLOCK_MONOTONIC seconds."""

    message: m.Load
    began: float
    prepared: PreparedModel | None = None
    error: Exception | None = None

    @classmethod
    def of(cls, message: m.Load, read: Callable[[m.Load], PreparedModel]) -> LoadResult:
        """Reads in the calling thread."""
        began = time.monotonic()
        try:
            return cls(message, began, read(message))
        except Exception as error:
            return cls(message, began, error=error)


class ModelLoader:
    """A loader thread. read: must not touch the scheduler's state. on_result: called in the loader's thread."""

    def __init__(self, read: Callable[[m.Load], PreparedModel], on_result: Callable[[LoadResult], None]) -> None:
        self._read, self._on_result = read, on_result
        self._thread = ThreadPoolExecutor(1, "loading")
        self._last: Future[None] | None = None

    def begin(self, message: m.Load) -> None:
        self._last = self._thread.submit(lambda: self._on_result(LoadResult.of(message, self._read)))

    @property
    def busy(self) -> bool:
        return self._last is not None and not self._last.done()
