"""The names of the device processes, and their configuration."""

from __future__ import annotations

import os
from pathlib import Path

from app.engine.interface import EngineSettings
from app.engine.protocol.messages import Configure

MAX_CPU_WORKERS = 4


def device_names(setting: str, cpu_workers: int = 1) -> list[str]:
    """Device names of the setting; "auto" is every CUDA device, or the CPU if there is none. Reads the driver's device
    files, since the front end must not import torch. With several CPU workers "cpu" becomes cpu:0, cpu:1, …"""
    names = [f"cuda:{i}" for i in range(cuda_device_count())] or ["cpu"]
    if setting != "auto":
        names = list(dict.fromkeys(name.strip() for name in setting.split(",") if name.strip()))
    workers = ["cpu"] if cpu_workers == 1 else [f"cpu:{i}" for i in range(cpu_workers)]
    return [worker for name in names for worker in (workers if name == "cpu" else [name])]


def cpu_workers(setting: int) -> int:
    """CPU processes; 0: one per core (single-threaded steps are fastest), at most MAX_CPU_WORKERS to save memory."""
    return setting or min(MAX_CPU_WORKERS, cores())


def worker_config(settings: EngineSettings) -> Configure:
    """The first message to every device process; the supervisor sets its device."""
    return Configure(
        device="",
        threads=threads_each(settings.cpu_threads, cpu_workers(settings.cpu_workers)),
        slots=settings.slots_per_model,
        precision=settings.precision,
        beam=settings.beam_size,
        prefill_tokens=settings.prefill_tokens,
        beat_s=min(1.0, settings.worker_hang_timeout_s / 4),
        log_level=settings.log_level,
        log_format=settings.log_format,
        stream_interval_s=settings.stream_interval_ms / 1000,
        inspection_threads=0 if settings.cpu_threads else cores(),  # 0: the same as `threads`
    )


def torch_device(name: str) -> str:
    """The torch device of a process; all CPU workers share "cpu"."""
    return "cpu" if name.startswith("cpu") else name


def threads_each(cpu_threads: int, cpu_workers: int) -> int:
    """Threads per device process; 0: torch's default, all cores. Workers share the cores: oversubscription is slow."""
    return cpu_threads if cpu_threads or cpu_workers == 1 else max(1, cores() // cpu_workers)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cuda_device_count() -> int:
    """Number of visible NVIDIA devices: the device files, limited by CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        names = [path.name for path in Path("/dev").iterdir()]
    except OSError:
        names = []
    present = sum(1 for name in names if name.startswith("nvidia") and name[6:].isdigit())
    if visible is None:
        return present
    return min(present, len([part for part in visible.split(",") if part.strip() not in ("", "-1")]))
