"""Runs inspections, part by part: between two decoding steps, or in a thread beside them.

On a CPU the thread has a low priority, so that on busy cores the steps of this and of other device processes come
first, and it uses no more threads than decoding does. torch's thread count is process-wide, and OpenMP's threads wait
actively for each other: on cores that others use too, a pass with more threads takes many times as long, and so do the
steps beside it. On CUDA inspections run between two steps, because another thread would break the recording of a
graph."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from app.engine.protocol import messages as m
from app.engine.worker.inspection import inspect
from app.engine.worker.model_runner import LoadedModel, LoadResult
from models.inspection.selection import SelectionError

log = logging.getLogger(__name__)

LATE_MESSAGE = "The answer did not come in time."
NICENESS = 5  # a quarter of a contended core: inspections are slow there, but do not starve


class InspectionRun:
    """One inspection. in_thread: computed by `InspectionThread`. cancelled_at: CLOCK_MONOTONIC seconds; 0: never."""

    def __init__(self, model: LoadedModel, message: m.Inspections) -> None:
        self.message, self.in_thread, self.cancelled_at = message, False, 0.0
        self._parts = inspect(model, message)

    def advance(self) -> m.Inspected | m.Failed | None:
        """Computes the next part of the work; the answer after the last one, or after an error."""
        message = self.message
        if 0 < message.deadline < time.monotonic():
            return m.Failed(message.id, "deadline_exceeded", LATE_MESSAGE)
        try:
            with torch_threads(message.threads):
                next(self._parts)
        except StopIteration as end:
            answer: m.Inspected = end.value
            return answer
        except SelectionError as error:
            return m.Failed(message.id, "invalid_request", str(error), error.field)
        except Exception as error:
            log.exception("the inspection of request %d failed", message.id)
            reason = f"Looking into this sentence failed: {str(error).rstrip('.')}."
            return m.Failed(message.id, "engine_failed", reason)
        return None


@dataclass(frozen=True, slots=True)
class InspectionResult:
    """The end of a run in the thread. answer: None if it was cancelled."""

    run: InspectionRun
    answer: m.Inspected | m.Failed | None


BackgroundResult = LoadResult | InspectionResult  # what other threads pass to the main loop


class InspectionThread:
    """A thread that computes one inspection at a time. on_result: called in it."""

    def __init__(self, on_result: Callable[[InspectionResult], None]) -> None:
        self._on_result = on_result
        self._executor = ThreadPoolExecutor(1, "inspection", initializer=lower_priority)
        self._runs: list[InspectionRun] = []  # begun and not ended, the running one first

    @property
    def busy(self) -> bool:
        return bool(self._runs)

    def begin(self, run: InspectionRun) -> None:
        run.in_thread = True
        self._runs.append(run)
        self._executor.submit(self._compute, run)

    def ended(self, run: InspectionRun) -> None:
        """Called by the main loop with the run of each result."""
        self._runs.remove(run)

    def check(self, limit_s: float) -> None:
        """Raises RuntimeError if a cancelled run has gone on for longer: nothing can end a thread but its process."""
        for run in self._runs[:1]:
            if run.cancelled_at and time.monotonic() - run.cancelled_at > limit_s:
                raise RuntimeError(f"an inspection went on for {limit_s:g} seconds after it was cancelled")

    def _compute(self, run: InspectionRun) -> None:
        answer = None
        while answer is None and not run.cancelled_at:
            answer = run.advance()
        self._on_result(InspectionResult(run, answer))


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Sets torch's thread count within the context; 0: unchanged."""
    if not count:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def lower_priority() -> None:
    """Lowers the priority of the calling thread, and of OpenMP's threads that it starts. Linux only: elsewhere a
    priority belongs to the whole process."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS))
