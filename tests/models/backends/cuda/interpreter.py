"""Triton's interpreter as a `Launcher`, in a process of its own: whether kernels are interpreted is settled when Triton
is imported, and other tests of this process compile them."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.backends.cuda.launch import Launch

ROOT = Path(__file__).parents[4]


class Interpreter:
    """Sends each launch to the process, and copies back what the kernel has written."""

    def __init__(self) -> None:
        self.launches = 0
        environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.models.backends.cuda.interpreter"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT
        )

    def __call__(self, launch: Launch) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.launches += 1
        arguments = [a.detach() if isinstance(a, Tensor) else a for a in launch.arguments]
        assert all(a.is_contiguous() for a in arguments if isinstance(a, Tensor))
        call = launch.kernel, launch.grid, [as_bytes(a) for a in arguments], dict(launch.constants)
        pickle.dump(call, self.process.stdin)
        self.process.stdin.flush()
        written: dict[int, bytes] = pickle.load(self.process.stdout)
        for place, data in written.items():
            tensor = arguments[place]
            assert isinstance(tensor, Tensor)
            tensor.copy_(as_tensor((tensor.dtype, tensor.shape, data)))

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def as_bytes(argument: Tensor | int | float) -> object:
    if not isinstance(argument, Tensor):
        return argument
    return argument.dtype, argument.shape, argument.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def as_tensor(packed: tuple[torch.dtype, torch.Size, bytes]) -> Tensor:
    dtype, shape, data = packed
    return torch.frombuffer(bytearray(data), dtype=dtype).view(shape) if data else torch.empty(shape, dtype=dtype)


def multiply_bf16(builder: Any) -> None:
    """Triton 3.7's interpreter keeps bf16 as 16-bit integers, and its dot multiplies these: widen them first."""
    dot = builder.create_dot

    def widened(self: Any, a: Any, b: Any, *arguments: Any) -> Any:
        for operand in (a, b):
            if operand.dtype.scalar.is_bf16():
                operand.data = (operand.data.astype(np.uint32) << 16).view(np.float32)
        return dot(self, a, b, *arguments)

    builder.create_dot = widened


def serve() -> None:
    from triton.runtime.interpreter import InterpreterBuilder

    from models.backends.cuda import choice_kernels, triton_kernels

    multiply_bf16(InterpreterBuilder)
    while True:
        try:
            kernel, grid, arguments, constants = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        made = [as_tensor(a) if isinstance(a, tuple) else a for a in arguments]
        function = getattr(choice_kernels if hasattr(choice_kernels, kernel) else triton_kernels, kernel)
        function[grid](*made, **constants)
        packed = {place: as_bytes(a) for place, a in enumerate(made) if isinstance(a, Tensor)}
        changed = {place: p[2] for place, p in packed.items() if p[2] != arguments[place][2]}  # type: ignore[index]
        pickle.dump(changed, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
