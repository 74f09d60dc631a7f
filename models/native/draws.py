"""`models.sampling.uniform` and `sample` in C, for logits in fp32 on a CPU."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from models.sampling import Draws

Integers = npt.NDArray[np.uint64]
Numbers = npt.NDArray[Any]
NO_MEMORY = "there is no memory to draw from so many logits"

TYPES = (np.float64, np.int64, np.float64, np.float64)


class Functions:
    """The library's functions, their types told once."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.draw, self.uniform_numbers, self.choose = library.draw, library.uniform_numbers, library.choose_tokens
        self.draw.restype = c_int64
        self.draw.argtypes = [c_void_p, c_int64, c_int64, *[c_void_p] * 5]
        self.choose.restype = c_int64
        self.choose.argtypes = [c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p]
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
        raise MemoryError(NO_MEMORY)
    return tokens


class Columns(ctypes.Structure):
    _fields_ = [(name, c_void_p) for name in ("temperature", "top_p", "top_k", "lengths", "seed")]


class Chooser:
    """A token for each row of logits, the likeliest where its temperature is 0: one call, whatever is asked for.

    Arrays over all slots, of which the rows are some; they stay where they are and are read at each call. lengths: how
    many tokens each has written."""

    def __init__(
        self,
        library: ctypes.CDLL,
        temperature: Numbers,
        top_p: Numbers,
        top_k: Numbers,
        lengths: Numbers,
        seed: Numbers,
    ) -> None:
        self.arrays = (temperature, top_p, top_k, lengths, seed)
        kinds = (np.float64, np.float64, np.int64, np.int64, np.uint64)
        assert all(array.dtype == kind for array, kind in zip(self.arrays, kinds, strict=True))
        assert all(array.flags.c_contiguous for array in self.arrays)
        self.columns = Columns(*(array.ctypes.data for array in self.arrays))
        self.address, self.function = ctypes.addressof(self.columns), functions(library).choose

    def __call__(self, logits: Tensor, slots: Tensor) -> Tensor:
        """logits [B, V] in fp32, the slots of these rows [B], in int64 -> token ids [B]."""
        (rows, size), logits = logits.shape, logits.contiguous()
        tokens = torch.empty(rows, dtype=torch.long)
        if self.function(self.address, logits.data_ptr(), rows, size, slots.data_ptr(), tokens.data_ptr()):
            raise MemoryError(NO_MEMORY)
        return tokens
