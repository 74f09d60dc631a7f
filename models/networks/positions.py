"""Sinusoidal positions (Vaswani et al. 2017, section 3.5) in the two layouts that checkpoints use."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

PositionLayout = Literal["interleaved", "marian"]


def sinusoids(length: int, width: int, layout: PositionLayout) -> Tensor:
    """[length, width], float32.

    interleaved: PE[p, 2i] = sin(p / 10000^(2i/width)), PE[p, 2i+1] = cos(the same), as in the paper.
    marian: all the sines, then all the cosines, as Marian and tensor2tensor lay them out.
    """
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    table = torch.empty(length, width, dtype=torch.float64)
    half = (width + 1) // 2
    sines = slice(0, None, 2) if layout == "interleaved" else slice(0, half)
    cosines = slice(1, None, 2) if layout == "interleaved" else slice(half, None)
    table[:, sines] = torch.sin(angle)
    table[:, cosines] = torch.cos(angle[:, : width // 2])
    return table.float()
