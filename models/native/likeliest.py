"""likeliest.c in Python: for float32 logits on a CPU, [B, V], whose rows are contiguous."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.native import build

MOST = 64  # of a row: the best so far are kept in order by insertion, which suits few


def kernels() -> ctypes.CDLL | None:
    """None where this CPU has none; see `models.native.build.library`."""
    loaded = build.library()
    return None if loaded is None else told(loaded)


@cache
def told(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """The library, told what its functions take, which makes a call cheap."""
    sizes, pointer = (c_int64,) * 4, c_void_p
    loaded.likeliest.argtypes = (pointer, *sizes, pointer, pointer)
    loaded.log_totals.argtypes = (pointer, *sizes[:3], pointer, pointer)
    loaded.continuations.argtypes = (
        *(pointer, c_int64, c_int64, pointer, c_int64, c_int64, pointer, c_int64, c_int64),
        *(pointer,) * 5,
    )
    for function in (loaded.likeliest, loaded.log_totals, loaded.continuations):
        function.restype = None
    return loaded


def usable(logits: Tensor, count: int = 1) -> bool:
    """For the `count` largest of each row."""
    if kernels() is None or not logits.is_cpu or logits.dtype != torch.float32:
        return False
    return logits.stride(1) == 1 and count <= min(MOST, logits.size(1))


def top(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row and their places, descending, equal ones by their places."""
    loaded, rows = kernels(), len(logits)
    assert loaded is not None
    values, places = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.long)
    width, stride = logits.size(1), logits.stride(0)
    loaded.likeliest(logits.data_ptr(), rows, stride, width, count, values.data_ptr(), places.data_ptr())
    return values, places


def log_total(logits: Tensor, largest: Tensor) -> Tensor:
    """largest [B, 1] -> [B]; the logits stay as they are."""
    loaded, rows, largest = kernels(), len(logits), largest.contiguous()
    assert loaded is not None
    totals = torch.empty(rows)
    width, stride = logits.size(1), logits.stride(0)
    loaded.log_totals(logits.data_ptr(), rows, stride, width, largest.data_ptr(), totals.data_ptr())
    return totals


def continuations(
    logits: Tensor, rows: npt.NDArray[np.int64], so_far: npt.NDArray[np.float32], count: int, kept: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """As `models.likeliest.continuations`, of the `count` largest of each row the `kept` best of each beam."""
    loaded, (beams, width) = kernels(), rows.shape
    assert loaded is not None
    assert rows.flags.c_contiguous
    assert so_far.flags.c_contiguous
    values, size = np.empty((beams, kept), dtype=np.float32), beams * kept
    held = np.empty(2 * size + 2 * count, dtype=np.int64)  # an address costs as much as a small array
    at = held.ctypes.data
    loaded.continuations(
        *(logits.data_ptr(), logits.stride(0), logits.size(1)),
        *(rows.ctypes.data, beams, width, so_far.ctypes.data, count, kept),
        *(values.ctypes.data, at, at + 8 * size, at + 8 * (2 * size + count), at + 16 * size),
    )
    return values, held[:size].reshape(beams, kept), held[size : 2 * size].reshape(beams, kept)
