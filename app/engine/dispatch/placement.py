"""Which device processes a server has, and their configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.engine.dispatch.cpu_pinning import CoreSet, cpu_quota
from app.engine.dispatch.cuda_devices import CudaReport, cuda_report, has_trace
from app.engine.interface import EngineSettings
from app.engine.protocol.messages import Configure

log = logging.getLogger(__name__)

MAX_CPU_WORKERS = 4
CPU_SLOTS = 64  # of a model in one CPU process, and the first guess for a GPU


class NoDevice(ValueError):
    """None of the devices that the setting names can be used."""


@dataclass(frozen=True, slots=True)
class Placement:
    """names: of the device processes. problem: a sentence if a GPU of this machine is not used although it should."""

    names: list[str]
    problem: str | None = None


def place(
    setting: str,
    cpu_workers: int = 1,
    *,
    timeout_s: float = 60.0,
    report: Callable[[float], CudaReport] = cuda_report,
    trace: Callable[[], bool] = has_trace,
) -> Placement:
    """The device processes of the setting. "auto" is every GPU on which PyTorch computes, or the CPU with the reason
    why there is none; where nothing hints at a GPU, PyTorch is not asked, which would take seconds. A list is taken as
    it is if one of its devices can be used; raises NoDevice otherwise."""
    names = list(dict.fromkeys(name.strip() for name in setting.split(",") if name.strip()))
    problem = None
    if setting == "auto":
        names = ["cpu"]
        if trace():
            found = report(timeout_s)
            names = [f"cuda:{number}" for number in found.gpus] or names
            if found.problem is not None:
                problem = f"{found.problem[:1].upper()}{found.problem[1:]}."
                problem = problem if found.gpus else f"This server runs on the CPU: {found.problem}."
            _log(found, problem)
    elif any(name.startswith("cuda:") for name in names):
        found = report(timeout_s)
        usable = [name for name in names if name == "cpu" or int(name.removeprefix("cuda:")) in found.gpus]
        reason = found.problem
        if found.gpus:
            reason = f"PyTorch reaches {', '.join(f'cuda:{number}' for number in found.gpus)}" + (
                f"; {reason}" if reason else ""
            )
        if not usable:
            raise NoDevice(f"PARLANCE_DEVICES is {setting}: {reason}.")
        if len(usable) < len(names):
            missing = ", ".join(name for name in names if name not in usable)
            problem = f"PARLANCE_DEVICES is {setting}, and {missing} cannot be used: {reason}."
        _log(found, problem)
    workers = ["cpu"] if cpu_workers == 1 else [f"cpu:{i}" for i in range(cpu_workers)]
    return Placement([worker for name in names for worker in (workers if name == "cpu" else [name])], problem)


def _log(found: CudaReport, problem: str | None) -> None:
    if found.gpus:
        log.info("%s", found)
    if problem is not None:
        log.warning("%s", problem)


def cpu_workers(setting: int, usable_cores: int | None = None) -> int:
    """CPU processes; 0: one per core (steps of one thread each decode most), at most MAX_CPU_WORKERS to save memory.
    usable_cores: None: every CPU that this process may use counts as one."""
    return setting or min(MAX_CPU_WORKERS, usable_cores or cores())


def worker_config(settings: EngineSettings, workers: int, pinned: Mapping[str, CoreSet]) -> Configure:
    """The first message to every device process; the supervisor sets its device. workers: CPU processes. pinned: the
    cores of each, as many for one as for another; a pinned process has a thread for each of its cores, because two
    hyperthreads of a core share its multipliers."""
    cores_each = len(next(iter(pinned.values())).cores) if pinned else 0
    return Configure(
        device="",
        threads=cores_each or settings.cpu_threads or threads_each(0, workers),  # `pin` took no more than cpu_threads
        slots=0 if settings.slots_per_model == "auto" else settings.slots_per_model,
        precision=settings.precision,
        beam=settings.beam_size,
        prefill_tokens=settings.prefill_tokens,
        beat_s=min(1.0, settings.worker_hang_timeout_s / 4),
        log_level=settings.log_level,
        log_format=settings.log_format,
        stream_interval_s=settings.stream_interval_ms / 1000,
        inspection_hang_s=6 * settings.worker_hang_timeout_s,  # its thread has a low priority
    )


def torch_device(name: str) -> str:
    """The torch device of a process: all CPU workers share "cpu", and a CUDA process sees one device alone."""
    return "cpu" if name.startswith("cpu") else "cuda:0"


def threads_each(cpu_threads: int, cpu_workers: int) -> int:
    """Threads per device process; 0: torch's default, all cores. Workers share the cores: oversubscription is slow."""
    if cpu_threads:
        return cpu_threads
    return 0 if cpu_workers == 1 and cpu_quota() >= _affinity() else max(1, cores() // cpu_workers)


def cores() -> int:
    """The number of CPUs of this process' affinity, or the CPU limit of its control groups (a container's limit) where
    that is lower."""
    return max(1, int(min(_affinity(), cpu_quota())))


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
