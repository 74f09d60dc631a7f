"""The number format that a network computes in."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

Precision = Literal["fp32", "bf16", "fp16"]
DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def cast(network: nn.Module, precision: Precision) -> nn.Module:
    """The network itself, its floating-point parameters and buffers in `precision`. ValueError for another name."""
    if precision not in DTYPES:
        raise ValueError(f"precision must be one of {', '.join(DTYPES)}, not {precision!r}")
    return network.to(DTYPES[precision])
