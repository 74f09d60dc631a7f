"""What a run ran on, for its card: processor, cores and threads, memory, GPUs, versions."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from training.wording import counted

GIB = 1 << 30


def hardware(device: torch.device) -> str:
    """One line, such as "NVIDIA H200, 1 of 1, 139 GiB; AMD EPYC, 8 cores, 4 threads, 64 GiB of memory"."""
    cores = os.cpu_count() or 1
    machine = f"{processor()}, {counted(cores, 'core')}, {counted(torch.get_num_threads(), 'thread')}"
    gpu = ""
    if device.type == "cuda":
        there = torch.cuda.get_device_properties(device)
        gpu = f"{there.name}, 1 of {torch.cuda.device_count()}, {there.total_memory / GIB:.0f} GiB; "
    return f"{gpu}{machine}{_memory()}"


def processor() -> str:
    """Its model's name, where the system tells, or its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or f"{platform.machine()} CPU"


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return ""
    return f", {size / GIB:.0f} GiB of memory"
