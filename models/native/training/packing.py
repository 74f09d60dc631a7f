"""Padded batches to packed ones: sentences one behind the other, and blocks of whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.native.training.structures import Packing

BLOCK = 96  # tokens of a side that go through a sublayer together, unless one sentence alone has more


@dataclass(frozen=True, slots=True)
class Side:
    """Tokens of one side: ids and places in their sentences [N], int64; offsets [B+1]: where each sentence starts."""

    ids: Tensor
    places: Tensor
    offsets: Tensor

    @property
    def tokens(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch. first [blocks+1]: the sentence with which each block begins; longest: tokens of the largest."""

    source: Side
    target: Side
    first: Tensor
    longest: int

    def of_source(self) -> Packing:
        return self._packing(self.source, self.source)

    def of_target(self) -> Packing:
        return self._packing(self.target, self.source)

    def _packing(self, own: Side, source: Side) -> Packing:
        starts = self.first.data_ptr(), own.offsets.data_ptr(), source.offsets.data_ptr()
        return Packing(torch.get_num_threads(), len(self.first) - 1, self.longest, *starts)


def side(ids: Tensor, there: Tensor) -> Side:
    """ids [B, T], there [B, T]: which of them are packed, in the order of the rows."""
    rows, places = there.nonzero(as_tuple=True)
    offsets = torch.zeros(len(ids) + 1, dtype=torch.int64)
    torch.cumsum(there.sum(1), 0, out=offsets[1:])
    return Side(ids[rows, places], places.contiguous(), offsets)  # PyTorch says nothing of how `nonzero` lays them


def pack(source: Tensor, readable: Tensor, target: Tensor, counted: Tensor) -> tuple[Packed, Tensor | None]:
    """source and readable [B, S], target and counted [B, T]. Of a target all is packed up to the last token that
    counts. Also which of the packed rows count; None: all."""
    ends = (counted * torch.arange(1, target.size(1) + 1)).amax(1, keepdim=True)
    within = torch.arange(target.size(1)) < ends
    sides = side(source, readable), side(target, within)
    first, longest = blocks(*(each.offsets.tolist() for each in sides))
    counting = counted[within]
    return Packed(*sides, torch.tensor(first), longest), None if bool(counting.all()) else counting


def blocks(source: Sequence[int], target: Sequence[int]) -> tuple[list[int], int]:
    """Offsets of sentences -> where blocks begin and end, and the most tokens of one."""
    first, longest = [0], 0
    for sentence in range(1, len(source)):
        start = first[-1]
        size = max(source[sentence] - source[start], target[sentence] - target[start])
        if size > BLOCK and sentence - 1 > start:
            first.append(sentence - 1)
            size = max(source[sentence] - source[sentence - 1], target[sentence] - target[sentence - 1])
        longest = max(longest, size)
    return [*first, len(source) - 1], longest
