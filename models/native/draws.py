"""`models.sampling.uniform` and `sample` in C, for logits in fp32 on a CPU."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from models.sampling import Draws

Integers = npt.NDArray[np.uint64]

TYPES = (np.float64, np.int64, np.float64, np.float64)


class Functions:
    """The library's functions, their types told once."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.draw, self.uniform_numbers = library.draw, library.uniform_numbers
        self.draw.restype = c_int64
        self.draw.argtypes = [c_void_p, c_int64, c_int64, *[c_void_p] * 5]
        self.uniform_numbers.restype = None
        self.uniform_numbers.argtypes = [c_int64, *[c_void_p] * 3]


functions = cache(Functions)


def uniform_numbers(library: ctypes.CDLL, seeds: Integers, positions: Integers) -> npt.NDArray[np.float64]:
    """`models.sampling.uniform`; seeds and positions of one shape."""
    seeds, positions = np.ascontiguousarray(seeds, np.uint64), np.ascontiguousarray(positions, np.uint64)
    assert seeds.shape == positions.shape
    numbers = np.empty(seeds.shape)
    addresses = (array.ctypes.data for array in (seeds, positions, numbers))
    functions(library).uniform_numbers(seeds.size, *addresses)
    return numbers


def drawn(library: ctypes.CDLL, logits: Tensor, draws: Draws) -> Tensor:
    """logits [B, V] -> token ids [B]."""
    (rows, size), logits = logits.shape, logits.contiguous()
    columns = [np.ascontiguousarray(column, dtype) for column, dtype in zip(draws, TYPES, strict=True)]
    tokens = torch.empty(rows, dtype=torch.long)
    addresses = [column.ctypes.data for column in columns]
    if functions(library).draw(logits.data_ptr(), rows, size, *addresses, tokens.data_ptr()):
        raise MemoryError("there is no memory to draw from so many logits")
    return tokens
