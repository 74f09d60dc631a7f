"""Arrays of numbers in an answer: digits, or base64 of bytes."""

from __future__ import annotations

import base64
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Encoding = Literal["json", "u8", "u16", "f32"]


def encoded(weights: npt.NDArray[np.float32], encoding: Encoding, decimals: int) -> dict[str, Any]:
    """Of values 0..1."""
    if encoding == "json":
        return {"weights": np.round(weights.astype(np.float64), decimals).tolist()}
    dtype = {"u8": "|u1", "u16": "<u2", "f32": "<f4"}[encoding]
    scale = 1.0 if encoding == "f32" else 1 / (2 ** int(encoding[1:]) - 1)
    numbers = weights if encoding == "f32" else np.rint(weights.astype(np.float64) / scale)
    return {
        "encoding": encoding,
        "dtype": dtype,
        "order": "C",
        "byte_order": "little",
        "scale": scale,
        "max_abs_error": 0.0 if encoding == "f32" else scale / 2,
        "data": base64.b64encode(numbers.astype(dtype).tobytes()).decode(),
    }
