"""Which device processes a server has, their configuration, and the environment in which each sees its device.

PyTorch reports the CUDA devices of this machine from a process of its own. cuda:N is the N-th device that
CUDA_VISIBLE_DEVICES leaves, in the order of nvidia-smi. Its process gets that variable with the one device and calls it
cuda:0: graphs, streams and allocations go to the current device of a process, which is then the only one."""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec

from app.engine.interface import EngineSettings
from app.engine.protocol.messages import Configure
from models.backends.torch.cuda_report import CudaReport as ProcessReport
from models.backends.torch.cuda_report import Gpu
from models.child_process import BlockingChild

log = logging.getLogger(__name__)

MAX_CPU_WORKERS = 4
CPU_SLOTS = 64  # of a model in one CPU process, and the first guess for a GPU
REPORT_MODULE = "models.backends.torch.cuda_report"
# Of NVIDIA's driver, of WSL's, and of Tegra (Jetson). A machine without any of these has no GPU that torch could use.
TRACES = ("nvidiactl", "nvidia[0-9]*", "dxg", "nvhost-gpu", "nvgpu", "nvmap")
_LONGEST = 1_000_000  # bytes of a report
_END_S = 5.0  # of a process that has closed its socket
_DECODE = msgspec.msgpack.Decoder(list[ProcessReport]).decode


@dataclass(frozen=True, slots=True)
class CudaReport:
    """gpus: the usable GPUs by the N of cuda:N, in ascending order. problem: a clause with the reason for each GPU that
    cannot be used, or for having none; None if all can."""

    torch: str = ""
    cuda: str | None = None
    driver: str | None = None
    gpus: dict[int, Gpu] = field(default_factory=dict)
    problem: str | None = None

    def __str__(self) -> str:
        gpus = ", ".join(f"cuda:{number} {gpu}" for number, gpu in self.gpus.items())
        driver = f", driver {self.driver}" if self.driver else ""
        return f"{gpus}; PyTorch {self.torch}{driver}"


def visible_entries(environment: Mapping[str, str] = os.environ) -> list[str] | None:
    """The entries of CUDA_VISIBLE_DEVICES that count: CUDA ignores the first invalid entry and all after it. None: the
    variable does not restrict anything."""
    value = environment.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    entries: list[str] = []
    for entry in map(str.strip, value.split(",")):
        if not (entry.isdecimal() or entry.startswith(("GPU-", "MIG-"))):
            break
        entries.append(entry)
    return entries


def device_environment(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a device process: cuda:N sees its one device. An order of devices that the caller has set is
    kept; otherwise it is that of nvidia-smi, and not CUDA's own guess at the fastest device."""
    changed = {**environment}
    if name.startswith("cuda:"):
        number, entries = int(name.removeprefix("cuda:")), visible_entries(environment)
        changed.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        # An index after the last entry leaves no device: the process then says so.
        changed["CUDA_VISIBLE_DEVICES"] = (
            str(number) if entries is None else entries[number] if number < len(entries) else "-1"
        )
    return changed


def has_trace(folder: Path = Path("/dev")) -> bool:
    """Whether the system has a device file of a GPU's driver. It says nothing about whether PyTorch can use it."""
    return any(True for pattern in TRACES for _ in folder.glob(pattern))


def cuda_report(timeout_s: float) -> CudaReport:
    """Asks PyTorch in a process of its own. It takes the seconds that importing torch and starting CUDA take. A process
    sees no more than one MIG instance, so that each of several gets a process."""
    entries = visible_entries()
    base = dict(os.environ)
    base.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if entries is not None and not entries:
        return CudaReport(problem="CUDA_VISIBLE_DEVICES names no device")
    environments = [base]
    if entries is not None and any(entry.startswith("MIG-") for entry in entries):
        environments = [device_environment(f"cuda:{number}", base) for number in range(len(entries))]
    gpus, problems, answer = dict[int, Gpu](), list[str](), None
    with contextlib.ExitStack() as files:
        asked = [_Probe(environment, files.enter_context(TemporaryFile())) for environment in environments]
        for first, probe in enumerate(asked):
            try:
                answer = probe.answer(timeout_s)
            except _NoAnswer as error:
                problems.append(str(error))
                continue
            problems += [] if answer.problem is None else [answer.problem]
            for gpu in answer.gpus:
                if gpu.problem is None:
                    gpus[first + gpu.index] = gpu
                else:
                    problems.append(f"cuda:{first + gpu.index}, {gpu.name}, cannot be used: {gpu.problem}")
    problem = "; ".join(dict.fromkeys(problems)) or None
    if answer is None:
        return CudaReport(problem=problem)
    return CudaReport(answer.torch, answer.cuda, answer.driver, gpus, problem)


class _NoAnswer(Exception):
    pass


class _Probe:
    """A process that reports. complaints: gets its stderr."""

    def __init__(self, environment: Mapping[str, str], complaints: IO[bytes]) -> None:
        self._complaints = complaints
        self._child = BlockingChild[ProcessReport](["-m", REPORT_MODULE], _DECODE, environment, _LONGEST, complaints)

    def answer(self, timeout_s: float) -> ProcessReport:
        """Raises _NoAnswer with a clause."""
        try:
            return self._child.receive(timeout_s)
        except TimeoutError:
            raise _NoAnswer(f"PyTorch did not report its GPUs within {timeout_s:g} s") from None
        except EOFError:
            status = self._child.end(_END_S)
        finally:
            self._child.end()
        if status < 0:
            raise _NoAnswer(f"the process that asked PyTorch for its GPUs was ended by signal {-status}")
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").splitlines()
        last = next((line.strip().rstrip(".") for line in reversed(lines) if line.strip()), "")
        raise _NoAnswer(f"the process that asked PyTorch for its GPUs gave no report{f' ({last})' if last else ''}")


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


def cpu_workers(setting: int) -> int:
    """CPU processes; 0: one per core (steps of one thread each decode most), at most MAX_CPU_WORKERS to save memory."""
    return setting or min(MAX_CPU_WORKERS, cores())


def worker_config(settings: EngineSettings, workers: int) -> Configure:
    """The first message to every device process; the supervisor sets its device. workers: CPU processes."""
    return Configure(
        device="",
        threads=threads_each(settings.cpu_threads, workers),
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


def cpu_quota(root: Path = Path("/")) -> float:
    """The CPU limit of this process' control groups, in CPUs: the lowest of all levels; infinity without one."""
    quota, mounts = math.inf, root / "sys/fs/cgroup"
    with contextlib.suppress(OSError):
        for line in os.fsdecode((root / "proc/self/cgroup").read_bytes()).splitlines():  # of any bytes
            _, controllers, path = line.split(":", 2)  # "0::/a/b" of version 2, "4:cpu,cpuacct:/a/b" of version 1
            if controllers and "cpu" not in controllers.split(","):
                continue
            group = Path(path.lstrip("/"))
            for level in (group, *group.parents):
                quota = min(quota, _quota_of(mounts / controllers / level))
    return quota


def _quota_of(group: Path) -> float:
    with contextlib.suppress(OSError, ValueError):  # ValueError: "max", no limit
        time_us, period_us = (group / "cpu.max").read_text().split()
        return int(time_us) / int(period_us)
    with contextlib.suppress(OSError, ValueError):
        time_us, period_us = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(time_us) / int(period_us) if int(time_us) > 0 else math.inf
    return math.inf
