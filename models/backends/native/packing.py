"""Weights in the kernels' layout, and the structures of native.h that hold them."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Sequence
from ctypes import c_float, c_int32, c_int64, c_void_p

import numpy as np
import torch
from torch import Tensor, nn

from models.backends.torch.int8_linear import rounded_weight


class Product(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("weight", "scale", "bias")),
        *((name, c_int64) for name in ("outputs", "inputs")),
    ]


class Norm(ctypes.Structure):
    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("epsilon", c_float), ("before", c_int32)]


HUGE_PAGE = 1 << 21
PANEL = 64  # native.h pads the outputs of a product to multiples of this


class Packer:
    """Fills structures from tensors and keeps the tensors alive, since structures hold addresses only. Weights are
    contiguous in packing order, so the hardware prefetches the next one."""

    def __init__(self, library: ctypes.CDLL, shapes: Sequence[tuple[int, ...]]) -> None:
        """shapes: of the matrices [O, I] that there is to be room for."""
        self.library, self.held = library, list[Tensor]()
        library.packed_size.restype = c_int64
        library.packed_size.argtypes = (c_int64, c_int64)
        library.pack.argtypes = (c_void_p, c_int64, c_int64, c_void_p)
        # a matrix that is split in two is padded twice
        room = sum(self._size(outputs + PANEL, inputs) for outputs, inputs in shapes)
        self.weights, self.taken = reserved(room), 0

    def _size(self, outputs: int, inputs: int) -> int:
        return int(self.library.packed_size(outputs, inputs))

    def address(self, tensor: Tensor) -> int:
        """The address of a contiguous float32 or uint8 copy, or of the tensor itself if it is one."""
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
        rounded = rounded.contiguous()
        self.library.pack(rounded.data_ptr(), outputs, inputs, packed.data_ptr())
        bias = torch.zeros(outputs) if bias is None else bias
        return Product(packed.data_ptr(), self.address(scale), self.address(bias), outputs, inputs)

    def without(self, product: Product, bias: Tensor | None, outputs: tuple[int, ...]) -> Product:
        """The product, whose bias is `bias` [O] or zeros, with -inf in the place of these outputs."""
        bias = torch.zeros(product.outputs) if bias is None else bias.detach().float()
        changed = Product.from_buffer_copy(product)
        changed.bias = self.address(bias.index_fill(0, torch.tensor(outputs, dtype=torch.long), -torch.inf))
        return changed

    def norm(self, module: nn.Module, *, before: bool = False) -> Norm:
        """The structure of a LayerNorm; an empty one for any other module."""
        if not isinstance(module, nn.LayerNorm):
            return Norm()
        return Norm(self.address(module.weight), self.address(module.bias), module.eps, before)


def reserved(size: int) -> Tensor:
    """An uninitialised byte tensor that takes no memory before it is written to, on huge pages if available."""
    pages = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError, AttributeError):  # AttributeError: Linux alone has this advice
        pages.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(pages, dtype=np.uint8)
    return torch.from_numpy(array[-array.ctypes.data % HUGE_PAGE :][:size])
