"""C kernels on float32 logits [B, V] on a CPU: top-k, beam continuations, sampling."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_int64, c_void_p
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.native import build

LOGITS_WORTH_THREADS = 1 << 17  # they take 0.05 ms; as in beam.c
MOST = 64  # maximum count per row: insertion sort suits small ones
POINTER = c_void_p
ARGUMENTS = {
    "likeliest": (POINTER, *(c_int64,) * 4, POINTER, POINTER),
    "log_totals": (POINTER, *(c_int64,) * 3, POINTER, POINTER),
    "continuations": (*(POINTER, c_int64, c_int64) * 3, *(POINTER,) * 5, c_int64),
}


def kernels() -> ctypes.CDLL | None:
    """The int8 library with typed functions, or None; see `models.backends.native.build.library`."""
    loaded = build.library()
    return None if loaded is None else typed(loaded)


@cache
def typed(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """The library with its argument types declared, which makes calls cheap."""
    for name, types in ARGUMENTS.items():
        getattr(loaded, name).argtypes = types
    return loaded


def usable(logits: Tensor, count: int = 1) -> ctypes.CDLL | None:
    """The library, if its kernels can take the `count` largest of each row."""
    if not logits.is_cpu or logits.dtype != torch.float32:
        return None
    return kernels() if logits.stride(1) == 1 and count <= min(MOST, logits.size(1)) else None


def native_top_k(loaded: ctypes.CDLL, logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row and their indices, descending; ties by index. loaded, here and below: what
    `usable` returned for these logits."""
    rows = logits.size(0)
    values, places = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.long)
    width, stride = logits.size(1), logits.stride(0)
    loaded.likeliest(logits.data_ptr(), rows, stride, width, count, values.data_ptr(), places.data_ptr())
    return values, places


def native_logsumexp(loaded: ctypes.CDLL, logits: Tensor, largest: Tensor) -> Tensor:
    """largest [B, 1] -> [B]; leaves the logits unchanged."""
    rows, largest = logits.size(0), largest.contiguous()
    totals = torch.empty(rows)
    width, stride = logits.size(1), logits.stride(0)
    loaded.log_totals(logits.data_ptr(), rows, stride, width, largest.data_ptr(), totals.data_ptr())
    return totals


def native_continuations(
    loaded: ctypes.CDLL,
    logits: Tensor,
    rows: npt.NDArray[np.int64],
    so_far: npt.NDArray[np.float32],
    count: int,
    kept: int,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """As `models.backends.top_k.continuations`: the `kept` best per beam among the `count` largest of each row."""
    beams, width = rows.shape
    values, size, searched = np.empty((beams, kept), dtype=np.float32), beams * kept, beams * width
    held = np.empty(2 * size + searched * (count + (count + 2) // 2), dtype=np.int64)
    at = build.address_of(held)
    threads = torch.get_num_threads() if searched * logits.size(1) >= LOGITS_WORTH_THREADS else 1
    loaded.continuations(
        *(logits.data_ptr(), logits.stride(0), logits.size(1)),
        *(build.address_of(rows), beams, width, build.address_of(so_far), count, kept),
        *(build.address_of(values), at, at + 8 * size, at + 8 * (2 * size + searched * count), at + 16 * size, threads),
    )
    return values, held[:size].reshape(beams, kept), held[size : 2 * size].reshape(beams, kept)


DTYPES = {"double": np.dtype("f8"), "int64_t": np.dtype("i8"), "uint64_t": np.dtype("u8")}


def chooser_columns(library: ctypes.CDLL) -> dict[str, np.dtype[Any]]:
    """The columns that `choose_tokens` reads, in the order of draws.c's structure, and their types."""
    text: Any = ctypes.create_string_buffer(4096)
    library.choose_tokens_columns.restype = c_int64
    length = library.choose_tokens_columns(text, c_int64(len(text)))
    assert length <= len(text)
    columns = (line.split() for line in text.raw[:length].decode().splitlines())
    return {name: DTYPES[kind] for kind, name in columns}


class Chooser:
    """Chooses a token per row of logits, the likeliest at temperature 0, in one call. Reads the arrays over all slots
    at each call, so callers update them in place. columns: those of `chooser_columns`, and any others."""

    def __init__(self, library: ctypes.CDLL, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        kinds = chooser_columns(library)
        self.arrays = [columns[name] for name in kinds]
        assert all(array.dtype == kind for array, kind in zip(self.arrays, kinds.values(), strict=True))
        assert all(array.flags.c_contiguous for array in self.arrays)
        self.columns = (c_void_p * len(kinds))(*(array.ctypes.data for array in self.arrays))
        self.address, self.function = ctypes.addressof(self.columns), library.choose_tokens
        self.function.argtypes = (POINTER, POINTER, c_int64, c_int64, POINTER, POINTER)

    def __call__(self, logits: Tensor, slots: Tensor) -> Tensor:
        """logits [B, V], float32; slots [B], int64: of these rows -> token ids [B]."""
        (rows, size), logits = logits.shape, logits.contiguous()
        tokens = torch.empty(rows, dtype=torch.long)
        if self.function(self.address, logits.data_ptr(), rows, size, slots.data_ptr(), tokens.data_ptr()):
            raise MemoryError("there is no memory to draw from so many logits")
        return tokens
