"""The Transformer's state as the native kernels read it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields

import numpy as np
import torch

from models.native.library import Cache
from models.transformer_state import Ints, TransformerState


@dataclass(slots=True)
class NativeState(TransformerState):
    """What a call is told of it, put together once. Lengths are counted once too: host and device are the same here."""

    caches: Cache
    slots: Ints  # 0, 1, 2, ...
    addresses: tuple[int, int, int]  # of slots, of the lengths and of the source lengths

    @classmethod
    def over(cls, held: TransformerState) -> NativeState:
        """The same caches."""
        (_, slots, target_length), source_length = held.cache.shape[:3], held.source_cache.size(2)
        known = {field.name: getattr(held, field.name) for field in fields(TransformerState)}
        known["lengths"] = torch.from_numpy(held.host_lengths)
        known["source_lengths"] = torch.from_numpy(held.host_source_lengths)
        caches = Cache(held.cache.data_ptr(), held.source_cache.data_ptr(), slots, target_length, source_length)
        counts = np.arange(slots), held.host_lengths, held.host_source_lengths
        addresses = counts[0].ctypes.data, counts[1].ctypes.data, counts[2].ctypes.data
        return cls(**known, caches=caches, slots=counts[0], addresses=addresses)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.caches)
