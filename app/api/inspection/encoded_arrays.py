"""Arrays of numbers in an answer: JSON, or base64 bytes, exact or quantized: value = offset + scale * number.
`max_abs_error` bounds the distance of a decoded value, in float32 or wider, from the model's float32."""

from __future__ import annotations

import base64
import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from app.api.request_fields import doc, optional
from app.api.responses import Answer

Encoding = Literal["json", "f32", "u16", "u8"]
Floats = npt.NDArray[np.float32]
LEVELS: dict[str, int] = {"u8": 250, "u16": 64_000}  # of 255 and 65,535, so that a scale is a short decimal fraction
FLOAT32 = 2.0**-24  # relative error of one operation
ROUNDING = 2.0**-22  # of a decoder's own arithmetic in float32


def encode_array(
    values: Floats, encoding: Encoding, *, decimals: int = 4, bounds: tuple[float, float] | None = None
) -> dict[str, Any]:
    """The fields of an answer. bounds: of all values; measured for None, and where values lie outside. ValueError for
    u8 and u16 of NaN and infinity."""
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
    """Numbers, scale, offset and error. Levels are equally far apart. Of given bounds the first and the last level are
    on them, and 0 is a level if it is in the middle. Measured values get a scale of three digits, rounded up, and an
    offset that is a multiple of it, so that both are short decimal fractions too."""
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise ValueError(f"These values are not all finite; ask for json or f32, not {encoding}.")
    measured_ends = (float(wide.min()), float(wide.max())) if wide.size else (0.0, 0.0)
    if bounds and not bounds[0] - FLOAT32 * 64 <= measured_ends[0] <= measured_ends[1] <= bounds[1] + FLOAT32 * 64:
        bounds = None  # numbers of an edited network: cutting them off would show others
    low, high = bounds or measured_ends
    levels = LEVELS[encoding]
    if bounds or low == high:
        scale, offset = (high - low) / levels, float(str(np.float32(low)))
    else:
        scale = _round_up((high - low) / (levels - 1))
        offset = float(f"{math.floor(low / scale) * scale:.12g}")
    numbers = np.clip(np.rint((wide - offset) / scale), 0, levels) if scale else np.zeros_like(wide)
    measured = float(np.abs(offset + scale * numbers - wide).max(initial=0.0))
    in_float32 = FLOAT32 * (2 * (high - low) + max(abs(low), abs(high))) + abs(float(np.float32(offset)) - offset)
    error = max(scale / 2, measured) + in_float32
    return numbers.astype("<u1" if encoding == "u8" else "<u2"), scale, offset, error


def _round_up(number: float) -> float:
    """To three digits; number: not negative."""
    if number == 0:
        return 0.0
    last = 10.0 ** (math.floor(math.log10(number)) - 2)
    return float(f"{math.ceil(number / last) * last:.3g}")


class EncodedArray(Answer):
    """Numbers in C order: `values` for json, or else `data`, where value = offset + scale * number."""

    encoding: Encoding = doc("How the numbers are written.", "json")
    shape: list[int] = doc("The size of each dimension.", [1, 2, 1])
    max_abs_error: float = doc("No decoded value is further from the model's float32.", 0.00005)
    decimals: int | None = optional("json: how many were kept.", 4)
    values: list[Any] | None = optional("json: nested lists of numbers, one level a dimension.", [[[0.9137], [0.0871]]])
    dtype: Literal["float32", "uint16", "uint8"] | None = optional("Else: the numbers of `data`.", "uint8")
    byte_order: Literal["little"] | None = optional("Else: of each number.", "little")
    scale: float | None = optional("Else: what a step of 1 in `data` is worth.", 0.004)
    offset: float | None = optional("Else: what a 0 in `data` stands for.", 0.0)
    data: str | None = optional("Else: the numbers in base64.", "6RY=")
