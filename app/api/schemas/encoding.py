"""Arrays of numbers in answers, in the encoding that the request chose."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from app.api.encoding import Encoding

ENCODING: Any = Field(
    default="json",
    description="How arrays are written: json, or base64 of little-endian f32 (exact), u16 or u8.",
    examples=["json"],
)
DECIMALS: Any = Field(default=4, ge=3, le=6, description="Decimals of numbers written as JSON.", examples=[4])


class EncodedArray(BaseModel):
    """Numbers in C order: `values` for json, or else `data`, where value = offset + scale * number."""

    encoding: Encoding = Field(description="How the numbers are written.", examples=["json"])
    shape: list[int] = Field(description="The size of each dimension.", examples=[[1, 2, 1]])
    max_abs_error: float = Field(
        description="No decoded value is further from the model's float32.", examples=[0.00005]
    )
    decimals: int | None = Field(default=None, description="json: how many were kept.", examples=[4])
    values: list[Any] | None = Field(
        default=None,
        description="json: nested lists of numbers, one level a dimension.",
        examples=[[[[0.9137], [0.0871]]]],
    )
    dtype: Literal["float32", "uint16", "uint8"] | None = Field(
        default=None, description="Else: the numbers of `data`.", examples=["uint8"]
    )
    byte_order: Literal["little"] | None = Field(default=None, description="Else: of each number.", examples=["little"])
    scale: float | None = Field(
        default=None, description="Else: what a step of 1 in `data` is worth.", examples=[0.00392156862745098]
    )
    offset: float | None = Field(default=None, description="Else: what a 0 in `data` stands for.", examples=[0.0])
    data: str | None = Field(default=None, description="Else: the numbers in base64.", examples=["6RY="])
