"""Launches compiled kernels through the CUDA driver's own library, so that no launcher has to be compiled."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int32, c_uint, c_uint64, c_void_p
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.backends.cuda.build import Cubin, Specification, UnavailableError, cubin
from models.backends.cuda.launch import Argument, Launch

LIBRARY = "libcuda.so.1"
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
DEFAULT_SHARED = 48 << 10  # bytes that a kernel may use without asking
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, POINTER(c_void_p), c_void_p),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
}


class LoadedKernel(NamedTuple):
    function: c_void_p
    cubin: Cubin


class DriverLauncher:
    """A `models.backends.cuda.launch.Launcher` of one device, whose context must be current, as PyTorch keeps it.
    stream: the handle of the stream to launch on; default: PyTorch's current stream. Kernels are loaded at their first
    launch, which must not be part of a graph's recording."""

    def __init__(self, arch: int, library: Any = None, stream: Callable[[], int] | None = None) -> None:
        """library: of the driver, for tests. UnavailableError if it cannot be loaded."""
        try:
            self.library = ctypes.CDLL(LIBRARY) if library is None else library
        except OSError as error:
            raise UnavailableError(f"the CUDA driver's library cannot be loaded ({error})") from error
        if library is None:
            for name, types in SIGNATURES.items():
                getattr(self.library, name).argtypes = types
        self.arch, self._stream = arch, stream or current_stream
        self._kernels: dict[Specification, LoadedKernel] = {}

    def __call__(self, launch: Launch) -> None:
        specification = Specification.of(launch, self.arch)
        kernel = self._kernels.get(specification)
        if kernel is None:
            kernel = self._kernels[specification] = self._load(cubin(specification))
        values = packed(launch.arguments, kernel.cubin.parameters)
        addresses = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        sizes = *launch.grid, kernel.cubin.threads, 1, 1, kernel.cubin.shared
        stream = c_void_p(self._stream())
        self._check("cuLaunchKernel", kernel.function, *sizes, stream, addresses, None)

    def _load(self, made: Cubin) -> LoadedKernel:
        module, function = c_void_p(), c_void_p()
        self._check("cuModuleLoadData", byref(module), made.data)
        self._check("cuModuleGetFunction", byref(function), module, made.name.encode())
        if made.shared > DEFAULT_SHARED:
            self._check("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, made.shared)
        return LoadedKernel(function, made)

    def _check(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            text = c_char_p()
            self.library.cuGetErrorName(status, byref(text))
            raise UnavailableError(f"{name} fails: {(text.value or b'unknown error').decode()}")


def packed(arguments: tuple[Argument, ...], parameters: tuple[int, ...]) -> list[Any]:
    """The arguments as C values of the sizes that the compiled kernel reads; its hidden parameters, pointers to scratch
    memory of size 0, are null."""
    values: list[Any] = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            assert argument.is_contiguous()
            values.append(c_uint64(argument.data_ptr()))
        else:
            values.append(c_float(argument) if isinstance(argument, float) else c_int32(argument))
    hidden = parameters[len(values) :]
    assert tuple(map(ctypes.sizeof, values)) == parameters[: len(values)], "the kernel takes other parameters"
    assert len(hidden) <= 2 and all(size == 8 for size in hidden)
    return values + [c_uint64(0) for _ in hidden]


def current_stream() -> int:
    return int(torch.cuda.current_stream().cuda_stream)
