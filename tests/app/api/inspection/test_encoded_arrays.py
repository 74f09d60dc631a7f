"""Arrays in answers: what a client decodes is as near to the model's numbers as the answer says."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import numpy as np
import pytest

from app.api.inspection.encoded_arrays import LEVELS, Encoding, encode_array

TYPES = {"float32": "<f4", "uint16": "<u2", "uint8": "<u1"}
BOUNDS = [(0.0, 1.0), (-1.0, 1.0), None]
ALL: list[Encoding] = ["json", "f32", "u16", "u8"]


def decoded(fields: dict[str, Any], wide: type[np.floating[Any]] = np.float64) -> np.ndarray:
    """As a client does it, after a journey through JSON."""
    fields = msgspec.json.decode(msgspec.json.encode(fields))
    if fields["encoding"] == "json":
        return np.array(fields["values"], dtype=wide)
    numbers = np.frombuffer(base64.b64decode(fields["data"]), TYPES[fields["dtype"]]).reshape(fields["shape"])
    return wide(fields["offset"]) + wide(fields["scale"]) * numbers.astype(wide)


def some(bounds: tuple[float, float] | None, shape: tuple[int, ...] = (3, 50, 7)) -> np.ndarray:
    rng = np.random.default_rng(3)
    low, high = bounds or (-7.25, 31.5)
    values = rng.uniform(low, high, shape).astype(np.float32)
    values.flat[:4] = low, high, (low + high) / 2, np.nextafter(np.float32(high), np.float32(low))
    return values


@pytest.mark.parametrize("wide", [np.float64, np.float32])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("encoding", ALL)
def test_the_stated_error_is_true(encoding: Encoding, bounds: Any, wide: Any) -> None:
    for decimals in (3, 4, 6):
        values = some(bounds)
        fields = encode_array(values, encoding, decimals=decimals, bounds=bounds)
        result = decoded(fields, wide)
        assert result.shape == values.shape == tuple(fields["shape"])
        error = np.abs(result.astype(np.float64) - values.astype(np.float64)).max()
        assert error <= fields["max_abs_error"]
        span = 2 if bounds else 40
        allowed = {
            "json": 0.5 * 10**-decimals + (3e-7 if bounds else 1e-5),
            "f32": 0.0,
            "u16": span / 65_000,
            "u8": span / 250,
        }[encoding]
        assert fields["max_abs_error"] <= allowed * 1.01  # three digits, rounded up


def test_shares_are_250_parts() -> None:
    fields = encode_array(np.array([0.0, 0.2, 1.0, 0.4999], dtype=np.float32), "u8", bounds=(0.0, 1.0))
    assert (fields["scale"], fields["offset"], fields["dtype"]) == (0.004, 0.0, "uint8")
    assert list(base64.b64decode(fields["data"])) == [0, 50, 250, 125]
    assert fields["max_abs_error"] == pytest.approx(0.002, rel=1e-2)


@pytest.mark.parametrize("encoding", LEVELS)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_scale_and_offset_are_short_numbers(encoding: Encoding, bounds: tuple[float, float] | None) -> None:
    for size in (1, 1 / 3, 1e-9, 12345.678):
        values = some(bounds) * np.float32(size if bounds is None else 1)
        fields = encode_array(values, encoding, bounds=bounds)
        digits = [len(re.sub(r"e.*|\D|^0+", "", repr(fields[name]).lstrip("-0."))) for name in ("scale", "offset")]
        assert max(digits) <= 9
        assert np.abs(decoded(fields, np.float32) - values).max() <= fields["max_abs_error"]


@pytest.mark.parametrize("encoding", LEVELS)
def test_zero_is_exact_between_bounds_of_both_signs(encoding: Encoding) -> None:
    fields = encode_array(np.array([0.0, -1.0, 1.0], dtype=np.float32), encoding, bounds=(-1.0, 1.0))
    assert decoded(fields).tolist() == [0.0, -1.0, 1.0]


def test_little_endian_in_c_order() -> None:
    values = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    fields = encode_array(values, "f32")
    assert (fields["byte_order"], fields["max_abs_error"]) == ("little", 0.0)
    assert base64.b64decode(fields["data"]) == b"".join(np.float32(i).tobytes() for i in range(6))
    wide = encode_array(np.array([1.0, 0.0], dtype=np.float32), "u16", bounds=(0.0, 1.0))
    assert base64.b64decode(wide["data"]) == b"\0\xfa\0\0"
    lopsided = encode_array(np.array([256 / 64_000], dtype=np.float32), "u16", bounds=(0.0, 1.0))
    assert base64.b64decode(lopsided["data"]) == b"\0\1"


@pytest.mark.parametrize("encoding", ALL)
@pytest.mark.parametrize("values", [[], [2.5], [2.5, 2.5], [-3.0, -3.0], [0.0]])
def test_values_that_do_not_vary_and_none_at_all(encoding: Encoding, values: list[float]) -> None:
    fields = encode_array(np.array(values, dtype=np.float32), encoding)
    assert np.abs(decoded(fields) - np.array(values)).max(initial=0.0) <= fields["max_abs_error"]
    assert fields["shape"] == [len(values)]


@pytest.mark.parametrize("encoding", LEVELS)
@pytest.mark.parametrize("beyond", [0.001, 0.03, 4.0])
def test_values_beyond_their_bounds_are_not_cut_off(encoding: Encoding, beyond: float) -> None:
    values = np.array([1 + beyond, -beyond, 0.5], dtype=np.float32)
    fields = encode_array(values, encoding, bounds=(0.0, 1.0))
    step = (1 + 2 * beyond) / LEVELS[encoding]
    assert np.abs(decoded(fields) - values).max() <= fields["max_abs_error"] < 0.52 * step + 1e-5


def test_json_keeps_its_decimals_and_no_negative_zero() -> None:
    fields = encode_array(np.array([[0.123456, -0.00001]], dtype=np.float32), "json", decimals=3)
    assert msgspec.json.encode(fields["values"]) == b"[[0.123,0.0]]"
    assert "data" not in fields


def test_non_finite_numbers_are_null_or_refused() -> None:
    values = np.array([np.nan, np.inf, 1.0], dtype=np.float32)
    assert msgspec.json.encode(encode_array(values, "json")["values"]) == b"[null,null,1.0]"
    assert np.isnan(decoded(encode_array(values, "f32"))[0])
    with pytest.raises(ValueError, match="ask for json or f32, not u8"):
        encode_array(values, "u8")
