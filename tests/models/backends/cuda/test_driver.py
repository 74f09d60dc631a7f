"""The launcher against a stand-in for the driver's library that reads what it is given as the driver would, and the
compiled kernels' own lists of parameters."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from models.backends.cuda import build
from models.backends.cuda.build import Cubin, Specification, UnavailableError
from models.backends.cuda.driver import DriverLauncher, packed
from models.backends.cuda.launch import Launch
from models.backends.cuda.transformer_step import DTYPES, launches
from tests.models import tiny


class FakeDriver:
    """Implements the functions that the launcher calls. parameters: sizes of the kernel's parameters, which it reads at
    each launch. status: returned by `failing`."""

    def __init__(self, parameters: tuple[int, ...] = (), failing: str = "", status: int = 0) -> None:
        self.parameters, self.failing, self.status = parameters, failing, status
        self.loaded: list[bytes] = []
        self.attributes: list[tuple[int, int]] = []
        self.calls: list[tuple[tuple[int, ...], int, list[bytes]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.status if name == self.failing else getattr(self, f"_{name}")(*arguments)

    def _cuModuleLoadData(self, module: Any, data: bytes) -> int:
        self.loaded.append(data)
        module._obj.value = 11
        return 0

    def _cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        assert module.value == 11 and name == b"attend_own"
        function._obj.value = 22
        return 0

    def _cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> int:
        self.attributes.append((attribute, value))
        return 0

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        *sizes, stream, addresses, extra = rest
        assert function.value == 22 and extra is None
        read = [ctypes.string_at(addresses[n], size) for n, size in enumerate(self.parameters)]
        self.calls.append((tuple(sizes), stream.value, read))
        return 0

    def _cuGetErrorName(self, status: int, text: Any) -> int:
        text._obj.value = b"CUDA_ERROR_NO_BINARY_FOR_GPU"
        return 0


PARAMETERS = (8, 8, 8, 8, 4, 4, 4, 8, 8)


def attention() -> Launch:
    tensors = torch.zeros(2, 96), torch.zeros(3, 5, 64), torch.zeros(2, dtype=torch.int32), torch.zeros(2, 32)
    return Launch("attend_own", (2, 2, 1), (*tensors, 0.25, 5, 2), (("D", 16), ("BLOCK", 16)))


def test_arguments_reach_the_driver_as_the_kernel_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Cubin(b"code", "attend_own", 99_000, 128, PARAMETERS)
    monkeypatch.setattr("models.backends.cuda.driver.cubin", lambda specification: made)
    library, launch = FakeDriver(PARAMETERS), attention()
    launcher = DriverLauncher(90, library, stream=lambda: 1234)
    launcher(launch)
    launcher(launch)
    assert library.loaded == [b"code"]  # once
    assert library.attributes == [(8, 99_000)]
    sizes, stream, read = library.calls[1]
    assert sizes == (2, 2, 1, 128, 1, 1, 99_000) and stream == 1234
    pointers = [a.data_ptr() for a in launch.arguments if isinstance(a, torch.Tensor)]
    assert struct.unpack("=4QfiiQQ", b"".join(read)) == (*pointers, 0.25, 5, 2, 0, 0)


def test_a_refusal_of_the_driver_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Cubin(b"code", "attend_own", 0, 128, PARAMETERS)
    monkeypatch.setattr("models.backends.cuda.driver.cubin", lambda specification: made)
    launcher = DriverLauncher(90, FakeDriver(failing="cuModuleLoadData", status=209), stream=lambda: 0)
    with pytest.raises(UnavailableError, match=r"^cuModuleLoadData fails: CUDA_ERROR_NO_BINARY_FOR_GPU$"):
        launcher(attention())


def test_a_machine_without_the_drivers_library_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.backends.cuda.driver.LIBRARY", "libcuda-missing.so.1")
    with pytest.raises(UnavailableError, match=r"the CUDA driver's library cannot be loaded"):
        DriverLauncher(90)


def test_other_parameters_than_the_compiled_kernels_are_refused() -> None:
    with pytest.raises(AssertionError, match="other parameters"):
        packed(attention().arguments, (8, 8, 8, 8, 4, 4, 8, 8, 8))


def specifications(dtype: str, arch: int, **options: Any) -> dict[str, tuple[Specification, Launch]]:
    network = tiny.transformer(heads=2, head_width=16, **options).to(DTYPES[dtype])
    found = launches(network, 1, choices=True) + launches(network, 4, 4, choices=True) + launches(network, 128)
    return {(made := Specification.of(launch, arch)).stem: (made, launch) for launch in found}


def check_compiled(specification: Specification, launch: Launch) -> None:
    """The launcher packs what the kernel's PTX declares, in number and size."""
    made = build.compiled(specification)
    assert made.data.startswith(b"\x7fELF") and made.name == specification.kernel
    values = packed(launch.arguments, made.parameters)
    assert tuple(map(ctypes.sizeof, values)) == made.parameters
    assert made.shared <= 99 << 10  # what every device of these generations has for a program


@pytest.mark.slow
def test_each_kernel_compiles_without_a_gpu_and_takes_the_parameters_that_are_packed() -> None:
    pytest.importorskip("triton", reason="Triton is for Linux on x86-64")
    found = specifications("bf16", 90).values()
    by_kernel = {each[0].kernel: each for each in reversed(found)}  # the first of each kernel is the fastest to compile
    assert len(by_kernel) == 9
    for specification, launch in by_kernel.values():
        check_compiled(specification, launch)


@pytest.mark.parametrize("kernel", ["embed", pytest.param("choose", marks=pytest.mark.slow)])
def test_all_warps_have_read_a_number_before_one_of_them_counts_it_up(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scalar is loaded by every thread and stored by the first: without a barrier between, a warp that is behind
    reads the new number. The interpreter has one thread."""
    pytest.importorskip("triton", reason="Triton is for Linux on x86-64")
    sizes, read = build.parameter_sizes, list[str]()

    def sizes_and_text(ptx: str, name: str) -> tuple[int, ...]:
        read.append(ptx)
        return sizes(ptx, name)

    monkeypatch.setattr(build, "parameter_sizes", sizes_and_text)
    found = [made for made, _ in specifications("bf16", 90).values() if made.kernel == kernel]
    build.compiled(next(made for made in found if kernel == "embed" or ("DRAW", 1) in made.constants))
    accesses = re.findall(r"(ld\.global|st\.global|bar\.sync)\S*\s+([^;]*);", read[0])
    places = [
        (access, place) for access, operands in accesses for place in re.findall(r"\[ (%rd\d+) \+ 0 \]", operands)
    ]
    counted = {place for access, place in places if access == "st.global"} & {
        place for access, place in places if access == "ld.global"
    }
    assert counted, "the kernel counts nothing up"
    for place in counted:
        kinds = [access for access, operands in accesses if access == "bar.sync" or f"[ {place} " in operands]
        assert "bar.sync" in kinds[kinds.index("ld.global") : kinds.index("st.global")]


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "dtype"), [(80, "bf16"), (90, "bf16"), (120, "bf16"), (90, "fp16"), (90, "fp32")])
def test_every_kernel_of_a_network_compiles(arch: int, dtype: str) -> None:
    pytest.importorskip("triton", reason="Triton is for Linux on x86-64")
    found = specifications(dtype, arch)
    if dtype == "bf16":
        found |= specifications(dtype, arch, norm="pre", activation="gelu")
    for specification, launch in found.values():
        check_compiled(specification, launch)


def test_a_kernel_is_compiled_once_and_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made, asked = Cubin(b"\x7fELF", "embed", 12, 64, (8, 4)), list[Specification]()
    monkeypatch.setattr(build, "compiled", lambda specification: asked.append(specification) or made)
    specification = Specification("embed", ("*bf16", "i32"), (True, False), (("BLOCK", 512),), 4, 3, 90)
    assert build.cubin(specification) == build.cubin(specification) == made
    assert asked == [specification]
    for file in (tmp_path / "parlance" / "cuda").iterdir():
        file.chmod(0o666)
    build.cubin(specification)
    assert len(asked) == 2  # what others may write is not run


def test_kernels_beside_the_sources_serve_devices_of_their_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "SHIPPED", tmp_path)
    monkeypatch.setattr(build, "compiled", lambda specification: Cubin(b"\x7fELF", "embed", 0, 128, ()))
    specification = Specification("embed", (), (), (), 4, 3, 80)
    assert build.build_beside_sources([specification, specification]) == 1
    monkeypatch.setattr(build, "compiled", lambda specification: pytest.fail("compiled"))
    assert build.cubin(build.for_arch(specification, 89)).data == b"\x7fELF"


def test_without_triton_and_kernels_the_reason_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "triton", None)
    with pytest.raises(UnavailableError, match=r"^neither compiled kernels nor Triton are installed"):
        build.compiled(Specification("embed", (), (), (), 4, 3, 80))


def test_a_triton_whose_kernels_need_scratch_memory_leaves_the_step_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton", reason="Triton is for Linux on x86-64")
    metadata = SimpleNamespace(
        global_scratch_size=128, profile_scratch_size=0, num_ctas=1, launch_cooperative_grid=False
    )
    monkeypatch.setattr(triton, "compile", lambda *arguments, **options: SimpleNamespace(metadata=metadata))
    specification = next(made for made, _ in specifications("bf16", 90).values() if made.kernel == "embed")
    with pytest.raises(UnavailableError, match=r"compiles embed to need scratch memory or a cooperative launch$"):
        build.compiled(specification)
