"""The CUDA devices of this machine, as PyTorch reports them from a process of its own, and the environment in which a
device process sees exactly one of them.

cuda:N is the N-th device that CUDA_VISIBLE_DEVICES leaves, in the order of nvidia-smi. Its process gets that variable
with the one device and calls it cuda:0: graphs, streams and allocations go to the current device of a process, which
is then the only one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

REPORT_MODULE = "models.backends.torch.cuda_report"
# Of NVIDIA's driver, of WSL's, and of Tegra (Jetson). A machine without any of these has no GPU that torch could use.
TRACES = ("nvidiactl", "nvidia[0-9]*", "dxg", "nvhost-gpu", "nvgpu", "nvmap")
GIB = 1 << 30


class Gpu(msgspec.Struct, frozen=True):
    """One GPU of the report. The fields are those of `models.backends.torch.cuda_report.Gpu`, which the front end
    may not import: that module imports torch."""

    index: int
    name: str
    capability: str
    total_bytes: int
    free_bytes: int
    problem: str | None = None

    def __str__(self) -> str:
        memory = f"{self.free_bytes / GIB:.1f} of {self.total_bytes / GIB:.1f} GiB free"
        return f"{self.name} (compute capability {self.capability}, {memory})"


class CudaReport(msgspec.Struct, frozen=True):
    """gpus: the usable GPUs by the N of cuda:N, in ascending order. problem: a clause with the reason for each GPU that
    cannot be used, or for having none; None if all can."""

    torch: str = ""
    cuda: str | None = None
    driver: str | None = None
    gpus: dict[int, Gpu] = {}
    problem: str | None = None

    def __str__(self) -> str:
        gpus = ", ".join(f"cuda:{number} {gpu}" for number, gpu in self.gpus.items())
        driver = f", driver {self.driver}" if self.driver else ""
        return f"{gpus}; PyTorch {self.torch}{driver}"


class _Answer(msgspec.Struct):
    torch: str
    cuda: str | None
    driver: str | None
    gpus: list[Gpu]
    problem: str | None


class Asked(NamedTuple):
    """A process that reports. first: the N of cuda:N of its first GPU."""

    process: subprocess.Popen[bytes]
    first: int


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
        # An index behind the last entry leaves no device: the process then says so.
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
    base = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    base.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if entries is not None and not entries:
        return CudaReport(problem="CUDA_VISIBLE_DEVICES names no device")
    if entries is not None and any(entry.startswith("MIG-") for entry in entries):
        asked = [Asked(_start(device_environment(f"cuda:{n}", base)), n) for n in range(len(entries))]
    else:
        asked = [Asked(_start(base), 0)]
    gpus, problems, answer = dict[int, Gpu](), list[str](), None
    for process, first in asked:
        try:
            answer = _answer(process, timeout_s)
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


def _start(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", REPORT_MODULE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches only the front end
    )


def _answer(process: subprocess.Popen[bytes], timeout_s: float) -> _Answer:
    """The report. Raises _NoAnswer with a clause."""
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise _NoAnswer(f"PyTorch did not report its GPUs within {timeout_s:g} s") from None
        except BaseException:
            process.kill()
            raise
    line = next((line for line in reversed(out.splitlines()) if line.startswith(b"{")), b"")
    try:
        return msgspec.json.decode(line, type=_Answer)
    except msgspec.DecodeError:
        pass
    if process.returncode < 0:
        raise _NoAnswer(f"the process that asked PyTorch for its GPUs was ended by signal {-process.returncode}")
    last = _last_line(err.decode(errors="replace").splitlines())
    detail = f" ({last})" if last else ""
    raise _NoAnswer(f"the process that asked PyTorch for its GPUs gave no report{detail}")


def _last_line(lines: Sequence[str]) -> str:
    return next((line.strip().rstrip(".") for line in reversed(lines) if line.strip()), "")
