"""A kernel's launch as data: `Launcher` is the one function by which a step reaches its kernels, so that PyTorch's
reference, Triton's interpreter or a simulator can stand for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Argument = Tensor | int | float
Grid = tuple[int, int, int]
POINTERS = {
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float64: "*fp64",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.bool: "*i1",
}
ALIGNMENT = 16  # bytes of a pointer, or a factor of a size: what the compiler needs for the widest loads
WIDE: dict[str, tuple[int, ...]] = {
    "embed": (3, 4, 6, 9),
    "linear": (*range(8), 9, 10),
    "attend_own": (0, 1, 3),
    "attend_source": (0, 1, 3),
    "reorder": (0, 5),
    "move": (0, 1, 5),
    "choose": (0, 7),
    "top_tokens": (0, 5),
    "continue_beams": (),
}
"""By kernel, the places of the arguments that it reads or writes in wide pieces, and of the sizes of their rows."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A call of a kernel. arguments: contiguous tensors and numbers, in the order of its parameters; constants: the
    compiled-in ones, by name; warps: of 32 threads per program; stages: of a software pipeline."""

    kernel: str
    grid: Grid
    arguments: tuple[Argument, ...]
    constants: tuple[tuple[str, int], ...]
    warps: int = 4
    stages: int = 3

    @property
    def types(self) -> tuple[str, ...]:
        """Triton's names of the arguments' types."""
        return tuple(type_of(argument) for argument in self.arguments)

    @property
    def aligned(self) -> tuple[bool, ...]:
        """Which arguments the kernel may take to be multiples of ALIGNMENT."""
        wide = WIDE[self.kernel]
        return tuple(place in wide and is_aligned(argument) for place, argument in enumerate(self.arguments))


Launcher = Callable[[Launch], None]
"""Runs a launch, or queues it on PyTorch's current stream."""


def type_of(argument: Argument) -> str:
    if isinstance(argument, Tensor):
        return POINTERS[argument.dtype]
    return "fp32" if isinstance(argument, float) else "i32"


def is_aligned(argument: Argument) -> bool:
    return (argument.data_ptr() if isinstance(argument, Tensor) else argument) % ALIGNMENT == 0
