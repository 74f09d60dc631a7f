"""The time of one step of our engine, and how much of it is the host's own.

Step time: wall-clock seconds of all steps of a batch after its prefill, over the number of tokens of each row; the
clock stops when the device has ended. Host time: the CPU time of the whole process over the same steps, in a process
whose CUDA context sleeps while it waits for the device instead of spinning (CU_CTX_SCHED_BLOCKING_SYNC). What is left
is what the host computes inside `Decoder.step`: bookkeeping, launches, copies, reading the tokens, and the system calls
of going to sleep and waking. It is therefore an upper bound of what a spinning process computes; the scheduler's own
part and the messages, which are not in `Decoder.step`, are not in it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.limit import synchronise
from benchmarks.ours import Opened, Parlance
from benchmarks.processes import Work

SLEEP_WHILE_WAITING = 4  # CU_CTX_SCHED_BLOCKING_SYNC


@dataclass(frozen=True, slots=True)
class Steps:
    """Seconds a step, and the process' CPU seconds a step."""

    seconds: float
    host_seconds: float


@dataclass(frozen=True, slots=True)
class StepTime:
    """A question to `benchmarks.ours`' engine: `Steps`, the best of some repeats after a warm-up."""

    work: Work
    repeats: int = 3

    def measure(self, engine: Opened) -> Steps:
        engine.translate(self.work)
        measured = [self._once(engine) for _ in range(self.repeats)]
        return Steps(min(s.seconds for s in measured), min(s.host_seconds for s in measured))

    def _once(self, engine: Opened) -> Steps:
        device, length = engine.model.network.device, self.work.limits[0]
        engine.join(list(engine.requests(self.work)))
        waiting = len(self.work.sources)
        synchronise(device)
        started, host = time.perf_counter(), time.process_time()
        while waiting:
            waiting -= len(engine.model.decoder.step().finished)
        synchronise(device)
        return Steps((time.perf_counter() - started) / length, (time.process_time() - host) / length)


@dataclass(frozen=True, slots=True)
class SleepingParlance(Parlance):
    """Parlance in a process that sleeps while it waits for the device: for host time alone, not for speed."""

    def open(self) -> Opened:
        if self.device.startswith("cuda"):
            sleep_while_waiting(int(self.device.partition(":")[2] or 0))
        return Opened(self)


def sleep_while_waiting(device: int) -> None:
    """Before CUDA starts in this process. RuntimeError with the driver's code if it refuses."""
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_int()
    calls: Iterable[tuple[str, tuple[object, ...]]] = (
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(handle), device)),
        ("cuDevicePrimaryCtxSetFlags_v2", (handle, SLEEP_WHILE_WAITING)),
    )
    for name, arguments in calls:
        code = getattr(driver, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} answered {code}")
