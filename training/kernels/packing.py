"""Packing of padded batches into blocks of whole sentences, and ctypes structures of the kernels' headers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from models.backends.native.build import raise_for_status

SLACK = 64  # floats after a matrix, because kernels read whole vectors
PANEL = 64  # maximum number of outputs per panel
check = partial(
    raise_for_status, out_of_range="a token is not in the vocabulary", no_memory="there is no memory to train with"
)


class Linear(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("weight", "bias", "weight_gradient", "bias_gradient", "turned", "straight")),
        *((name, c_int64) for name in ("outputs", "inputs")),
    ]


class Dropout(ctypes.Structure):
    _fields_ = [("key", c_uint64), ("rate", c_float)]


class Packing(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("threads", "blocks", "longest")),
        *((name, c_void_p) for name in ("first", "own", "source")),
    ]


class ResidualNorm(ctypes.Structure):
    _fields_ = [
        *(("width", c_int64), ("before", c_int64)),
        *((name, c_void_p) for name in ("weight", "bias", "weight_gradient", "bias_gradient")),
        *(("epsilon", c_float), ("dropout", Dropout)),
        *((name, c_void_p) for name in ("x", "y", "statistics", "normed", "sum", "dy", "dx", "dropped", "partial")),
    ]


class Norm(ctypes.Structure):
    _fields_ = [("threads", c_int64), ("tokens", c_int64), ("around", ResidualNorm)]


class FeedForward(ctypes.Structure):
    _fields_ = [
        *(("packing", Packing), ("around", ResidualNorm), ("widen", Linear), ("narrow", Linear), ("dropout", Dropout)),
        *((name, c_void_p) for name in ("hidden", "dhidden")),
    ]


class Attention(ctypes.Structure):
    _fields_ = [
        *(("packing", Packing), ("around", ResidualNorm)),
        *((name, Linear) for name in ("projection", "key_value", "output")),
        *((name, c_int64) for name in ("heads", "head_width", "causal")),
        *(("scale", c_float), ("dropout", Dropout)),
        *((name, c_void_p) for name in ("memory", "projected", "remembered", "context", "logsum")),
        *((name, c_void_p) for name in ("dprojected", "dremembered", "dmemory")),
    ]


class CrossEntropy(ctypes.Structure):
    _fields_ = [
        *(("threads", c_int64), ("tokens", c_int64), ("output", Linear), ("smoothing", c_float)),
        *((name, c_void_p) for name in ("x", "targets", "losses", "dx", "dlogits")),
    ]


class Embedding(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("threads", "tokens", "width", "rows")),
        *((name, c_void_p) for name in ("ids", "places", "table", "positions")),
        *(("scale", c_float), ("dropout", Dropout)),
        *((name, c_void_p) for name in ("y", "dy", "dtable")),
    ]


def matrix(rows: int, columns: int) -> Tensor:
    """[rows, columns], uninitialised, with slack after."""
    return torch.empty(rows * columns + SLACK)[: rows * columns].view(rows, columns)


def readable(x: Tensor) -> Tensor:
    """x [rows, columns] contiguous, copied with slack if whole vectors would reach past its end."""
    if x.size(1) % 16 == 0:
        return x.contiguous()
    copy = matrix(*x.shape)
    copy.copy_(x)
    return copy


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def linear(
    weight: Tensor, bias: Tensor | None, gradients: tuple[Tensor, Tensor | None] | None, held: list[Tensor]
) -> Linear:
    """weight [O, I]. gradients: of weight and bias, in the backward pass. held: keeps the structure's buffers alive."""
    outputs, inputs = weight.shape
    padded = (outputs if gradients is None else inputs) + PANEL - 1
    held.append(torch.empty(padded // PANEL * PANEL * (inputs if gradients is None else outputs)))
    room = held[-1].data_ptr()
    if gradients is None:
        return Linear(weight.data_ptr(), address(bias), None, None, room, None, outputs, inputs)
    where = gradients[0].data_ptr(), address(gradients[1])
    return Linear(weight.data_ptr(), address(bias), *where, None, room, outputs, inputs)


BLOCK = 96  # tokens per block and side, unless a single sentence has more


@dataclass(frozen=True, slots=True)
class Side:
    """Packed tokens of one side: ids and sentence positions [N], int64; offsets [B+1]: the start of each sentence."""

    ids: Tensor
    places: Tensor
    offsets: Tensor


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed batch. first [blocks+1]: the first sentence of each block; longest: tokens of the largest block."""

    source: Side
    target: Side
    first: Tensor
    longest: int

    def packing(self, own: Side) -> Packing:
        """own: the side of the sublayer's rows."""
        starts = self.first.data_ptr(), own.offsets.data_ptr(), self.source.offsets.data_ptr()
        return Packing(torch.get_num_threads(), len(self.first) - 1, self.longest, *starts)


def side(ids: Tensor, there: Tensor) -> Side:
    """ids [B, T]; there [B, T]: which ids to pack, row by row."""
    rows, places = there.nonzero(as_tuple=True)
    offsets = torch.zeros(len(ids) + 1, dtype=torch.int64)
    torch.cumsum(there.sum(1), 0, out=offsets[1:])
    return Side(ids[rows, places], places.contiguous(), offsets)  # `nonzero` guarantees no memory layout


def pack(source: Tensor, readable: Tensor, target: Tensor, counted: Tensor) -> tuple[Packed, Tensor | None]:
    """source, readable [B, S]; target, counted [B, T]. A target is packed up to its last counted token. Also returns
    which packed target rows are counted; None: all."""
    ends = (counted * torch.arange(1, target.size(1) + 1)).amax(1, keepdim=True)
    within = torch.arange(target.size(1)) < ends
    sides = side(source, readable), side(target, within)
    first, longest = blocks(*(each.offsets.tolist() for each in sides))
    counting = counted[within]
    return Packed(*sides, torch.tensor(first), longest), None if bool(counting.all()) else counting


def blocks(source: Sequence[int], target: Sequence[int]) -> tuple[list[int], int]:
    """Sentence offsets -> block boundaries, and the tokens of the largest block."""
    first, longest = [0], 0
    for sentence in range(1, len(source)):
        start = first[-1]
        size = max(source[sentence] - source[start], target[sentence] - target[start])
        if size > BLOCK and sentence - 1 > start:
            first.append(sentence - 1)
            size = max(source[sentence] - source[sentence - 1], target[sentence] - target[sentence - 1])
        longest = max(longest, size)
    return [*first, len(source) - 1], longest
