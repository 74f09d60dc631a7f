"""native.h in Python: the same structures, and where tensors go into them."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from ctypes import c_float, c_int32, c_int64, c_void_p
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.products import rounded_weight

Field = tuple[str, Any]


class Product(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("weight", "scale", "bias")),
        *((name, c_int64) for name in ("outputs", "inputs")),
    ]


class Norm(ctypes.Structure):
    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("epsilon", c_float), ("before", c_int32)]


class SelfAttention(ctypes.Structure):
    _fields_ = [("projection", Product), ("output", Product), ("around", Norm)]


class CrossAttention(ctypes.Structure):
    _fields_ = [("query", Product), ("key_value", Product), ("output", Product), ("around", Norm)]


class FeedForward(ctypes.Structure):
    _fields_ = [("widen", Product), ("narrow", Product), ("around", Norm), ("activation", c_int64)]


class Encoding(ctypes.Structure):
    _fields_ = [("attention", SelfAttention), ("feed_forward", FeedForward)]


class Decoding(ctypes.Structure):
    _fields_ = [("attention", SelfAttention), ("cross", CrossAttention), ("feed_forward", FeedForward)]


class Model(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("heads", "head_width", "width", "inner")),
        *((name, c_float) for name in ("scale", "embedding_scale")),
        *((name, c_void_p) for name in ("source_embedding", "target_embedding", "encoding", "decoding")),
        *((name, c_int64) for name in ("encoder_layers", "decoder_layers", "source_vocabulary", "target_vocabulary")),
        *(("encoder_norm", Norm), ("decoder_norm", Norm), ("projection", Product)),
    ]


class Cache(ctypes.Structure):
    _fields_ = [
        *(("own", c_void_p), ("source", c_void_p)),
        *((name, c_int64) for name in ("slots", "target_length", "source_length")),
    ]


HUGE_PAGE = 1 << 21
PANEL = 64  # outputs, to multiples of which native.h pads a product's


class Packer:
    """Fills structures from tensors and holds on to these, which the structures only point to. Weights are laid one
    behind the other in the order in which they are packed: what is read ahead of one is then the next."""

    def __init__(self, library: ctypes.CDLL, network: nn.Module) -> None:
        self.library, self.held = library, list[Tensor]()
        library.packed_size.restype = c_int64
        # a matrix that is taken apart is padded twice
        room = sum(self._size(p.size(0) + PANEL, p.size(1)) for p in network.parameters() if p.ndim == 2)
        self.weights, self.taken = reserved(room), 0

    def _size(self, outputs: int, inputs: int) -> int:
        return int(self.library.packed_size(c_int64(outputs), c_int64(inputs)))

    def address(self, tensor: Tensor) -> int:
        """Of a contiguous float32 or uint8 tensor; one that is not becomes one."""
        kept = tensor.detach()
        kept = (kept if kept.dtype == torch.uint8 else kept.float()).contiguous()
        self.held.append(kept)
        return kept.data_ptr()

    def product(self, weight: Tensor, bias: Tensor | None) -> Product:
        """weight [O, I], bias [O]."""
        rounded, scale = rounded_weight(weight)
        outputs, inputs = rounded.shape
        packed = self.weights[self.taken :][: self._size(outputs, inputs)]
        self.taken += len(packed)
        assert len(packed) == self._size(outputs, inputs), "more matrices than room was reserved for"
        self.library.pack(
            c_void_p(rounded.contiguous().data_ptr()), c_int64(outputs), c_int64(inputs), c_void_p(packed.data_ptr())
        )
        bias = torch.zeros(outputs) if bias is None else bias
        return Product(packed.data_ptr(), self.address(scale), self.address(bias), outputs, inputs)

    def norm(self, module: nn.Module, *, before: bool = False) -> Norm:
        """Of a LayerNorm; of anything else, none."""
        if not isinstance(module, nn.LayerNorm):
            return Norm()
        return Norm(self.address(module.weight), self.address(module.bias), module.eps, before)


def reserved(size: int) -> Tensor:
    """So many bytes, which take no memory before they are written to, on large pages where the system has them."""
    pages = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        pages.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(pages, dtype=np.uint8)
    return torch.from_numpy(array[-array.ctypes.data % HUGE_PAGE :][:size])
