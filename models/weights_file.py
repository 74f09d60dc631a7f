"""The header of a safetensors file, read before anything is allocated for its tensors. No torch here.

A file is the length of its header (8 bytes, little-endian), the header (JSON: name -> dtype, shape and the place of the
data), and the data. Format: https://github.com/huggingface/safetensors. Its reader is the library's own, which maps the
file; this one decides whether what a stranger's file says is true of the file, and whether a network of these sizes can
have such weights."""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

MOST_HEADER_BYTES = 16_000_000  # 100 bytes for each tensor; the library takes 100 MB
METADATA = "__metadata__"
BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
DEPTH = re.compile(r"(.*_)?layers")
WIDTH = re.compile(r"(.*_)?vocabulary|d_model|d_ff|heads|head_width|hidden|embedding")


class StoredTensor(NamedTuple):
    """A tensor of a file: its dtype as safetensors writes it (F32), its shape, and the bytes of its data, counted from
    the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def regular_file_bytes(path: Path) -> int:
    """The size of a file. ValueError for anything else: opening a pipe waits without end, and a device has no end.
    OSError."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no regular file")
    return status.st_size


def read_header(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file by name, which fill its data one after the other, without gap or overlap. Raises ValueError
    for any other file, OSError."""
    size_bytes = regular_file_bytes(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size_bytes < 8 or length > size_bytes - 8:
            raise ValueError(f"it is no safetensors file: its header would have {length:,} bytes of {size_bytes:,}")
        if length > MOST_HEADER_BYTES:
            raise ValueError(f"its header has {length:,} bytes, and the most is {MOST_HEADER_BYTES:,}")
        header = file.read(length)
    try:
        content = json.loads(header.decode(), object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"its header cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise ValueError("its header is no JSON object")
    content.pop(METADATA, None)
    tensors = {name: _stored_tensor(name, entry) for name, entry in content.items()}
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1][2:]):
        if tensor.begin != end:
            problem = "overlaps the tensor before it" if tensor.begin < end else "leaves a gap before it"
            raise ValueError(f"its tensor {_shown(name)} {problem}")
        end = tensor.end
    if not tensors:
        raise ValueError("it holds no tensors")
    if end != size_bytes - 8 - length:
        raise ValueError(f"its tensors have {end:,} bytes, and the file has {size_bytes - 8 - length:,} for them")
    return tensors


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name is there twice")
    return content


def _stored_tensor(name: str, entry: object) -> StoredTensor:
    """ValueError unless the entry has a known dtype, a shape and as many bytes as they take."""
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, place = fields.get("dtype"), _counts(fields.get("shape")), _counts(fields.get("data_offsets"))
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ValueError(f"its tensor {_shown(name)} has no dtype that this version reads")
    if shape is None or place is None or len(place) != 2:
        raise ValueError(f"its tensor {_shown(name)} has no shape or no place")
    tensor = StoredTensor(dtype, shape, *place)
    if len(shape) > 8 or tensor.end - tensor.begin != tensor.elements * BITS[dtype] // 8:
        raise ValueError(f"its tensor {_shown(name)} has not the bytes of its shape")
    return tensor


def _counts(value: object) -> tuple[int, ...] | None:
    """None unless it is a list of sizes or places."""
    sound = isinstance(value, list) and all(type(number) is int and 0 <= number < 1 << 48 for number in value)
    return tuple(value) if sound and isinstance(value, list) else None


def _shown(name: str) -> str:
    return repr(name[:60])


def check_architecture(architecture: Mapping[str, object], tensors: Mapping[str, StoredTensor]) -> None:
    """ValueError where the file cannot hold the weights of such a network, whose modules would take memory and time to
    build: each layer has a tensor, and each width and vocabulary is a side of one."""
    elements = sum(tensor.elements for tensor in tensors.values())
    for name, size in architecture.items():
        if not isinstance(size, int):
            continue
        if DEPTH.fullmatch(name) and size > len(tensors):
            raise ValueError(f"{name} is {size:,}, and the weights are {len(tensors):,} tensors")
        if WIDTH.fullmatch(name) and size > elements:
            raise ValueError(f"{name} is {size:,}, and the weights are {elements:,} numbers")
