"""The header of a safetensors file, read before anything is allocated for its tensors. No torch here.

A file is the length of its header (8 bytes, little-endian), the header (JSON: name -> dtype, shape and the place of the
data), and the data. Format: https://github.com/huggingface/safetensors. The library, which maps the file, holds the
header to it; this module decides whether a stranger's file may be read at all, and whether a network of these sizes can
have such weights."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

MOST_HEADER_BYTES = 16_000_000  # 100 bytes for each tensor; the library takes 100 MB
DEPTH = re.compile(r"(.*_)?layers")
WIDTH = re.compile(r"(.*_)?vocabulary|d_model|d_ff|heads|head_width|hidden|embedding")


def regular_file_bytes(path: Path) -> int:
    """The size of a file. ValueError for anything else: opening a pipe waits without end, and a device has no end.
    OSError."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no regular file")
    return status.st_size


def read_header(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a file, whose data they fill one after the other, without gap or overlap. Raises
    ValueError for any other file, OSError."""
    size_bytes = regular_file_bytes(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if size_bytes < 8 or length > size_bytes - 8:
        raise ValueError(f"it is no safetensors file: its header would have {length:,} bytes of {size_bytes:,}")
    if length > MOST_HEADER_BYTES:
        raise ValueError(f"its header has {length:,} bytes, and the most is {MOST_HEADER_BYTES:,}")
    try:
        with safe_open(path, "np") as tensors:
            shapes = {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    except SafetensorError as error:
        problem = str(error).removeprefix("Error while deserializing header: ")
        raise ValueError(f"its header is not that of its data ({problem})") from error
    if not shapes:
        raise ValueError("it holds no tensors")
    return shapes


def check_architecture(architecture: Mapping[str, object], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """ValueError where the file cannot hold the weights of such a network, whose modules would take memory and time to
    build: each layer has a tensor, and each width and vocabulary is a side of one."""
    elements = sum(map(math.prod, shapes.values()))
    for name, size in architecture.items():
        if not isinstance(size, int):
            continue
        if DEPTH.fullmatch(name) and size > len(shapes):
            raise ValueError(f"{name} is {size:,}, and the weights are {len(shapes):,} tensors")
        if WIDTH.fullmatch(name) and size > elements:
            raise ValueError(f"{name} is {size:,}, and the weights are {elements:,} numbers")
