"""Bytes of a decoding state, counted on the tensors that were really allocated: heads, widths and lengths are those of
the network, edited or not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def tensor_bytes(root: Any, device: torch.device) -> int:
    """Bytes of all distinct storages on the device that are reachable from `root` through attributes, lists, tuples
    and dictionaries, except the weights of networks."""
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
