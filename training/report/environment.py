"""The environment of a run: processor, cores and threads, memory, GPUs, source revision, command line."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from pathlib import Path

import torch

from training.errors import pluralize

GIB = 1 << 30


def hardware_summary(device: torch.device, processes: int = 1, machines: int = 1) -> str:
    """One line, of this machine: "NVIDIA H200, 1 of 1, 139 GiB; AMD EPYC, 8 cores, 4 threads, 64 GiB of memory"."""
    gpu = ""
    if device.type == "cuda":
        there, used = torch.cuda.get_device_properties(device), processes // machines
        each = " each" if used > 1 else ""
        gpu = f"{there.name}, {used} of {torch.cuda.device_count()}, {there.total_memory / GIB:.0f} GiB{each}; "
    threads = pluralize(torch.get_num_threads(), "thread")
    if processes > 1:
        where = f" on {machines} machines," if machines > 1 else ""
        threads = f"{processes} processes{where} of {threads} each"
    return f"{gpu}{processor_name()}, {pluralize(os.cpu_count() or 1, 'core')}, {threads}{_memory_size()}"


def processor_name() -> str:
    """The processor's model name if known, else its architecture."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or f"{platform.machine()} CPU"


def _memory_size() -> str:
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / GIB:.0f} GiB of memory"
    return ""


def source_revision() -> str:
    """The revision of this source tree, or "unknown" for an installed package."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    return "unknown"
