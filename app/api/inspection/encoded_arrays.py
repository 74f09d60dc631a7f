"""Arrays of numbers in an answer: JSON, or base64 bytes, exact or quantized: value = offset + scale * number.
`max_abs_error` bounds the distance of a decoded value, in float32 or wider, from the model's float32."""

from __future__ import annotations

import base64
import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from app.api.field_types import doc, optional

Encoding = Literal["json", "f32", "u16", "u8"]
Floats = npt.NDArray[np.float32]
LEVELS: dict[str, int] = {"u8": 2**8 - 1, "u16": 2**16 - 1}
ROUNDING = 2.0**-22  # of a decoder's own arithmetic in float32: two operations and the scale itself


def encode_array(
    values: Floats, encoding: Encoding, *, decimals: int = 4, bounds: tuple[float, float] | None = None
) -> dict[str, Any]:
    """The fields of an answer. bounds: of all values; None: measured. ValueError for u8 and u16 of NaN and infinity."""
    fields = {"encoding": encoding, "shape": list(values.shape)}
    if encoding == "json":
        rounded = np.round(values.astype(np.float64), decimals) + 0.0  # + 0.0: no number is written as -0.0
        rounding_error = ROUNDING * float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        error = _round_up(0.5 * 10.0**-decimals + rounding_error)
        return {**fields, "decimals": decimals, "max_abs_error": error, "values": rounded.tolist()}
    numbers: npt.NDArray[np.generic] = values.astype("<f4", copy=False)
    scale, offset, error = 1.0, 0.0, 0.0
    if encoding != "f32":
        numbers, scale, offset, error = _quantize(values, encoding, bounds)
    return {
        **fields,
        "dtype": numbers.dtype.name,
        "byte_order": "little",
        "scale": scale,
        "offset": offset,
        "max_abs_error": _round_up(error),
        "data": base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode("ascii"),
    }


def _quantize(
    values: Floats, encoding: Literal["u16", "u8"], bounds: tuple[float, float] | None
) -> tuple[npt.NDArray[np.generic], float, float, float]:
    """Numbers, scale, offset and error. Levels are equally far apart, the first and the last on the bounds. Bounds on
    both sides of 0 lose the last level if they are equally far from it, so that 0 stays exactly 0. The scale is
    therefore not rounded: of a shorter number neither 0 nor the last level would come out exactly."""
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise ValueError(f"These values are not all finite; ask for json or f32, not {encoding}.")
    low, high = bounds or ((float(wide.min()), float(wide.max())) if wide.size else (0.0, 0.0))
    levels = LEVELS[encoding] - (low == -high != 0.0)
    scale = (high - low) / levels
    numbers = np.clip(np.rint((wide - low) / scale), 0, levels) if scale else np.zeros_like(wide)
    measured = float(np.abs(low + scale * numbers - wide).max(initial=0.0))
    error = max(scale / 2, measured) + ROUNDING * max(abs(low), abs(high))
    return numbers.astype("<u1" if encoding == "u8" else "<u2"), scale, low, error


def _round_up(error: float) -> float:
    """To three digits: more of an error is of no use."""
    if error == 0:
        return 0.0
    last = 10.0 ** (math.floor(math.log10(error)) - 2)
    return float(f"{math.ceil(error / last) * last:.3g}")


class EncodedArray(BaseModel):
    """Numbers in C order: `values` for json, or else `data`, where value = offset + scale * number."""

    encoding: Encoding = doc("How the numbers are written.", "json")
    shape: list[int] = doc("The size of each dimension.", [1, 2, 1])
    max_abs_error: float = doc("No decoded value is further from the model's float32.", 0.00005)
    decimals: int | None = optional("json: how many were kept.", 4)
    values: list[Any] | None = optional("json: nested lists of numbers, one level a dimension.", [[[0.9137], [0.0871]]])
    dtype: Literal["float32", "uint16", "uint8"] | None = optional("Else: the numbers of `data`.", "uint8")
    byte_order: Literal["little"] | None = optional("Else: of each number.", "little")
    scale: float | None = optional("Else: what a step of 1 in `data` is worth.", 0.00392156862745098)
    offset: float | None = optional("Else: what a 0 in `data` stands for.", 0.0)
    data: str | None = optional("Else: the numbers in base64.", "6RY=")
