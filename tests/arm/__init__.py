"""ARM's kernels under QEMU, called from tests that run on another CPU.

As a pytest plugin (`-p tests.arm`) it lets `models.backends.native` see an ARM CPU: libraries are compiled
by the cross compiler in CC, loaded by a process of qemu-aarch64, and called there. Python's heap (`heap.c`, preloaded)
is mapped by that process at the same address, so that a kernel reads and writes the tensors of the tests. `run` starts
pytest so."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from models.backends.native import build, cpu, packing
from tests.combinations import ALL_VALUES

HERE = Path(__file__).parent
COMPILER, EMULATOR, SYSROOT = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
CLANG = f"clang --target=aarch64-linux-gnu -isystem {SYSROOT}/include"
PACKAGES = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user clang"  # Debian's
CPU, GUEST = "EMULATED_CPU", "EMULATION_GUEST"
OPEN, SYMBOL, CALL = range(3)  # as in guest.c
REQUEST = struct.Struct("<27Q")
ARGUMENTS = 24


def missing() -> list[str]:
    """What is needed and not installed."""
    found = {name: shutil.which(name) is not None for name in (COMPILER, EMULATOR, "gcc", "clang")}
    found["libc6-dev-arm64-cross"] = Path(SYSROOT, "include/stdio.h").exists()
    return [name for name, there in found.items() if not there]


def run(
    cpu_model: str, tests: Sequence[str], folder: Path, compiler: str = COMPILER
) -> subprocess.CompletedProcess[str]:
    """pytest on these tests with the kernels for a CPU as QEMU names it. folder: for this package's own programs, and
    for kernels that another compiler than GCC makes: the user's cache knows a kernel by its sources and flags alone."""
    heap, guest = folder / "heap.so", folder / "guest"
    for command in (
        ["gcc", "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", heap, HERE / "heap.c"],
        [COMPILER, "-O2", "-o", guest, HERE / "guest.c", "-ldl"],
    ):
        subprocess.run(command, check=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        CPU: cpu_model,
        GUEST: str(guest),
        "CC": compiler,
        "LD_PRELOAD": str(heap),
        "PYTHONMALLOC": "malloc",
    }
    if compiler != COMPILER:
        environment["XDG_CACHE_HOME"] = str(folder)
    environment.pop(build.CHOICE, None)
    command = [sys.executable, "-m", "pytest", "-p", "no:schemathesis", "-p", "tests.arm", "-m", ALL_VALUES, *tests]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


class Guest:
    """The process under QEMU."""

    def __init__(self) -> None:
        heap = ctypes.CDLL(None)
        heap.shared_heap_used.restype = heap.shared_heap_base.restype = ctypes.c_uint64
        self.used, base, file = heap.shared_heap_used, heap.shared_heap_base(), heap.shared_heap_file()
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [EMULATOR, "-cpu", os.environ[CPU], "-L", SYSROOT, os.environ[GUEST], str(file), f"{base:x}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[file],
            bufsize=0,
        )

    def ask(self, kind: int, function: int, *arguments: Any) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        addresses = (address_of(argument) & (1 << 64) - 1 for argument in arguments)
        padded = (*addresses, *(0,) * (ARGUMENTS - len(arguments)))
        with self.lock:  # the guest has one thread, besides those of a kernel's team
            self.process.stdin.write(REQUEST.pack(self.used(), kind, function, *padded))
            answer = self.process.stdout.read(8)
        if len(answer) != 8:
            raise RuntimeError(f"{EMULATOR} ended with {self.process.wait()}")
        return int(struct.unpack("<q", answer)[0])

    def end(self) -> None:
        """A guest ends with its input."""
        with self.process:
            pass


@cache
def guest() -> Guest:
    started = Guest()
    atexit.register(started.end)
    return started


class Library:
    """What `ctypes.CDLL` is for a library of this machine."""

    def __init__(self, path: str | None) -> None:
        self._name, self._handle = path or "", 0
        if path is not None:
            self._handle = guest().ask(OPEN, 0, ctypes.create_string_buffer(path.encode()))
            if not self._handle:
                raise OSError(f"{path} cannot be loaded")

    def __getattr__(self, name: str) -> Function:
        at = guest().ask(SYMBOL, 0, self._handle, ctypes.create_string_buffer(name.encode()))
        if not at:
            raise AttributeError(name)
        function = Function(at)
        setattr(self, name, function)
        return function


class Function:
    def __init__(self, at: int) -> None:
        self.at = at
        self.restype: Any = ctypes.c_int
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        result = guest().ask(CALL, self.at, *map(copied, arguments))
        return None if self.restype is None else self.restype(result).value


def copied(argument: Any) -> Any:
    """Structures are passed by value: AArch64 takes the address of a copy of one of more than 16 bytes."""
    if not isinstance(argument, ctypes.Structure):
        return argument
    assert ctypes.sizeof(argument) > 16
    return type(argument).from_buffer_copy(argument)


def address_of(argument: Any) -> int:
    """The integer that stands for an argument of a foreign function."""
    if argument is None:
        return 0
    if isinstance(argument, int):
        return argument
    if isinstance(argument, (ctypes.Structure, ctypes.Array)):
        return ctypes.addressof(argument)
    if hasattr(argument, "_obj"):  # of byref
        return ctypes.addressof(argument._obj)
    return int(argument.value or 0)


def native_library(variant: build.Variant) -> ctypes.CDLL:
    """A library of this machine's own kernels."""
    compiler, of = os.environ.pop("CC"), cpu.platform
    cpu.platform = PLATFORM
    try:
        return ctypes.CDLL(str(build.built(variant)))
    finally:
        os.environ["CC"], cpu.platform = compiler, of


PLATFORM = cpu.platform
active = CPU in os.environ
if active:
    torch.set_num_threads(1)
    build.ctypes = cpu.ctypes = SimpleNamespace(CDLL=Library)
    cpu.platform = SimpleNamespace(machine=lambda: "aarch64")
    packing.reserved = lambda size: torch.zeros(size, dtype=torch.uint8)  # on the heap, where others are mapped apart
