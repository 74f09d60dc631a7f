"""The GPUs that PyTorch can compute on, or the reason why there is none.

    python -m models.backends.torch.cuda_report

prints one JSON object, and sends the report to a server that has started it. A process of its own is the right place to
ask: a driver that hangs can be given up, and the caller holds neither torch nor a CUDA context afterwards. Every GPU
executes one kernel, because a GPU that is listed may still be one that this build of PyTorch has no code for."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from models.child_process import ParentChannel

DRIVER_FILE = Path("/proc/driver/nvidia/version")  # absent under WSL
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. index: of cuda:INDEX. capability: compute capability such as "9.0". problem: a clause if no kernel runs
    on it; its memory is then unknown (0)."""

    index: int
    name: str
    capability: str
    total_bytes: int = 0
    free_bytes: int = 0
    problem: str | None = None

    def __str__(self) -> str:
        memory = f"{self.free_bytes / GIB:.1f} of {self.total_bytes / GIB:.1f} GiB free"
        return f"{self.name} (compute capability {self.capability}, {memory})"


@dataclass(frozen=True, slots=True)
class CudaReport:
    """gpus: all that are visible to this process. problem: a clause if PyTorch reaches none. cuda: the version that
    torch was built for; driver: of the kernel module."""

    torch: str
    cuda: str | None
    driver: str | None
    gpus: list[Gpu] = field(default_factory=list)
    problem: str | None = None


def cuda_report() -> CudaReport:
    """Initialises CUDA, and a context on every visible GPU. Raises nothing that CUDA or its driver may raise."""
    import torch

    versions = str(torch.__version__), torch.version.cuda, driver_version()
    if torch.version.cuda is None:
        return CudaReport(*versions, problem=f"PyTorch {torch.__version__} is built without CUDA")
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        count = torch.cuda.device_count()
    except Exception as error:
        return CudaReport(*versions, problem=clause(error))
    gpus = [_gpu(index) for index in range(count)]
    return CudaReport(*versions, gpus, None if gpus else "no CUDA GPU is available")


def _gpu(index: int) -> Gpu:
    import torch

    name, capability = f"GPU {index}", "?"
    try:
        properties = torch.cuda.get_device_properties(index)
        name, capability = properties.name, f"{properties.major}.{properties.minor}"
        if int((torch.ones(2, device=f"cuda:{index}") + 1).sum().item()) != 4:
            raise RuntimeError("it computes 1 + 1 wrongly")
        free, total = torch.cuda.mem_get_info(index)
    except Exception as error:
        return Gpu(index, name, capability, problem=clause(error))
    return Gpu(index, name, capability, total, free)


def driver_version() -> str | None:
    """Of NVIDIA's kernel module, such as "580.65.06"."""
    try:
        found = re.search(
            r"Kernel Module\D*?\s(\d+\.[\d.]+)", DRIVER_FILE.read_text(encoding="utf-8", errors="replace")
        )
    except OSError:
        return None
    return found.group(1) if found else None


def clause(error: BaseException) -> str:
    """The first sentence of a CUDA error, or its numbered part, without the advice that PyTorch appends to it."""
    numbered = re.search(r"Error \d+: .+", str(error))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = numbered.group() if numbered else lines[0] if lines else type(error).__name__
    first = re.split(r"\.\s", first, maxsplit=1)[0].rstrip(".:")
    return first[:1].lower() + first[1:] if first.split()[0][1:].islower() else first


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ParentChannel[None, CudaReport](lambda _: []).send([cuda_report()])
    else:
        print(msgspec.json.encode(cuda_report()).decode())  # noqa: T201
