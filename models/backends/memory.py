"""Memory: the bytes that a decoding state takes, and the errors that say there is too little."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

NO_MEMORY = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def out_of_memory(error: BaseException) -> bool:
    """Whether the error is a lack of memory, so that less work at once could succeed."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)


def tensor_bytes(root: Any, device: torch.device) -> int:
    """Bytes of all distinct storages on the device that are reachable from `root` through attributes, lists, tuples
    and dictionaries, except the weights of networks. The tensors that were really allocated are counted, so that the
    number holds for a network whose heads, widths or lengths have been edited."""
    storages: dict[int, int] = {}
    visited: set[int] = set()
    open_objects = [root]
    while open_objects:
        value = open_objects.pop()
        if id(value) in visited or isinstance(value, nn.Module | str | bytes | int | float | type):
            continue
        visited.add(id(value))
        if isinstance(value, Tensor):
            if value.device.type == device.type:
                whole = value if value._base is None else value._base
                storage = whole.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
        elif isinstance(value, list | tuple | set):
            open_objects += value
        elif isinstance(value, dict):
            open_objects += value.values()
        elif type(value).__module__.partition(".")[0] == "models":
            open_objects += vars(value).values() if hasattr(value, "__dict__") else ()
            names = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
            open_objects += [getattr(value, name) for name in names if hasattr(value, name)]
    return sum(storages.values())
