"""`models.sampling.sample` in C, for logits in fp32 on a CPU."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from models.sampling import Draws


def drawn(library: ctypes.CDLL, logits: Tensor, draws: Draws) -> Tensor:
    """logits [B, V] -> token ids [B]."""
    logits = logits.contiguous()
    columns = (np.ascontiguousarray(column, dtype) for column, dtype in zip(draws, TYPES, strict=True))
    temperature, top_k, top_p, uniform = columns
    tokens = torch.empty(len(logits), dtype=torch.long)
    failed = library.draw(
        *(c_void_p(logits.data_ptr()), c_int64(len(logits)), c_int64(logits.size(1))),
        *(c_void_p(each.ctypes.data) for each in (temperature, top_k, top_p, uniform)),
        c_void_p(tokens.data_ptr()),
    )
    if failed:
        raise MemoryError("there is no memory to draw from so many logits")
    return tokens


TYPES = (np.float64, np.int64, np.float64, np.float64)
