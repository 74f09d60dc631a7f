"""The static cache of a decoder that PyTorch steps: keys and values of each row's own tokens and of its source.

They are allocated once, with as many heads and widths as the network's attention turns out to have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.networks.transformer import KeyValue

Ints = npt.NDArray[np.int64]
Shape = tuple[int, int]
"""Heads and their width."""


class LayerCache:
    """One layer's keys and values, of its own tokens or of the source. A position's keys and values stand together, so
    that one copy moves both."""

    def __init__(self, slots: int, length: int, key: Shape, value: Shape, dtype: torch.dtype, device: torch.device):
        width = key[0] * key[1]
        self.both = zeros((slots, length, width + value[0] * value[1]), dtype, device)
        self.flat = self.both.view(slots * length, -1)
        self.keys = self.both[..., :width].view(slots, length, *key).transpose(1, 2)  # [slots, H, T, D]
        self.values = self.both[..., width:].view(slots, length, *value).transpose(1, 2)

    def joined(self, key: Tensor, value: Tensor) -> Tensor:
        """Two of [B, H, T, D] -> [B, T, both widths]."""
        return torch.cat([key.transpose(1, 2).flatten(2), value.transpose(1, 2).flatten(2)], dim=-1)


class TransformerState:
    """Rows of a decoder. host_lengths and host_source_lengths say on the host what the device knows too: how many
    target tokens were read into a row, and how long its source is."""

    def __init__(
        self,
        slots: int,
        lengths: tuple[int, int],
        own: Sequence[tuple[Shape, Shape]],
        source: Sequence[tuple[Shape, Shape]],
        dtype: torch.dtype,
        position_table: Tensor,
        positions: Tensor,
    ) -> None:
        """Rows that hold nothing. lengths: of target and source; own, source: keys' and values' heads and widths, a
        layer each. positions [target length]: what the network calls the position of each target token."""
        device = position_table.device
        self.own = [LayerCache(slots, lengths[0], key, value, dtype, device) for key, value in own]
        self.source = [LayerCache(slots, lengths[1], key, value, dtype, device) for key, value in source]
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.source_lengths = torch.zeros_like(self.lengths)
        self.host_lengths: Ints = np.zeros(slots, dtype=np.int64)
        self.host_source_lengths: Ints = np.zeros(slots, dtype=np.int64)
        self.position_table = position_table  # kept alive: a CUDA graph reads it though the network may grow another
        self.positions, self.target_length = positions, lengths[0]
        self.first = torch.arange(0, slots * lengths[0], lengths[0], device=device)  # of each row in the flat caches

    def copy(self, sources: list[int], destinations: list[int], since: Sequence[int] | None) -> None:
        """As `models.interface.Decodable.copy` says."""
        self._copy_positions(np.array(sources), np.array(destinations), np.array(since or [0] * len(sources)))
        if since is not None:
            return
        index, onto = torch.tensor([sources, destinations], device=self.lengths.device).unbind(0)
        longest = int(self.host_source_lengths[sources].max())
        for layer in self.source:
            moved = layer.both[:, :longest]
            moved.index_copy_(0, onto, moved.index_select(0, index))
        for lengths in (self.lengths, self.source_lengths):
            lengths.index_copy_(0, onto, lengths.index_select(0, index))
        held = self.host_lengths[destinations], self.host_source_lengths[destinations]
        for host_lengths in (self.host_lengths, self.host_source_lengths):
            host_lengths[destinations] = host_lengths[sources]
        self.forget(destinations, held)

    def forget(self, rows: Sequence[int], held: tuple[Ints, Ints]) -> None:
        """Zeros behind what `rows` hold now, where they held more target and source tokens before. Masked it has no
        weight, but 0 · NaN is NaN, and in a narrow format a sentence may have come to that. On a GPU free rows are
        stepped along and hold more than was counted."""
        for caches, lengths, before in (
            (self.own, self.host_lengths, held[0]),
            (self.source, self.host_source_lengths, held[1]),
        ):
            whole = caches[0].both.size(1)
            ends = before.tolist() if self.lengths.device.type == "cpu" else [whole] * len(rows)
            for row, end in zip(rows, ends, strict=True):
                if lengths[row] < end:
                    for layer in caches:
                        layer.both[row, int(lengths[row]) : end] = 0

    def _copy_positions(self, sources: Ints, destinations: Ints, since: Ints) -> None:
        """Keys and values of the positions since[i] and on, and of no others: hypotheses of a beam seldom differ in
        more than their last tokens."""
        counts = self.host_lengths[sources] - since
        total = int(counts.sum())
        if total == 0:
            return
        # since[0], since[0] + 1, ..., since[1], since[1] + 1, ...
        places = np.arange(total) - np.repeat(np.cumsum(counts) - counts - since, counts)
        read, write = (np.repeat(rows * self.target_length, counts) + places for rows in (sources, destinations))
        index, onto = torch.from_numpy(np.stack([read, write])).to(self.lengths.device).unbind(0)
        for layer in self.own:
            layer.flat.index_copy_(0, onto, layer.flat.index_select(0, index))


@dataclass(slots=True)
class StepCache:
    """The next token of rows 0..B-1 (`models.networks.transformer.Cache`). places [B]: in the flat caches; length: of
    the positions that are in use, the new one included."""

    state: TransformerState
    places: Tensor
    length: int

    def update(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        own, rows = self.state.own[layer], len(key)
        own.flat.index_copy_(0, self.places, own.joined(key, value).flatten(0, 1))
        return own.keys[:rows, :, : self.length], own.values[:rows, :, : self.length]


@dataclass(slots=True)
class PrefixCache:
    """The first tokens of some rows, index [B], together: they attend to one another, so nothing is read back."""

    state: TransformerState
    index: Tensor

    def update(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        own = self.state.own[layer]
        own.both[self.index, : key.size(2)] = own.joined(key, value)
        return key, value


@dataclass(slots=True)
class ShapeCache:
    """Stores nothing and finds out what would have to be stored."""

    shapes: list[tuple[Shape, Shape]]

    def update(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        self.shapes.append(((key.size(1), key.size(3)), (value.size(1), value.size(3))))
        return key, value


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on a CPU such as take no memory before they are written to: few sequences are as long as their slots."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(shape)
