"""Static key-value caches for decoding in PyTorch: of each row's target tokens and of its source. Allocated once, with
the heads and widths that the network's attention actually has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.torch.transfers import upload
from models.networks.transformer import KeyValue

Ints = npt.NDArray[np.int64]
Shape = tuple[int, int]
"""Heads and their width."""


class LayerCache:
    """Keys and values of one layer, adjacent at each position, so that one copy moves both."""

    def __init__(self, slots: int, length: int, key: Shape, value: Shape, dtype: torch.dtype, device: torch.device):
        width = key[0] * key[1]
        self.both = zeros((slots, length, width + value[0] * value[1]), dtype, device)
        self.flat = self.both.view(slots * length, -1)
        self.keys = self.both[..., :width].view(slots, length, *key).transpose(1, 2)  # [slots, H, T, D]
        self.values = self.both[..., width:].view(slots, length, *value).transpose(1, 2)

    def joined(self, key: Tensor, value: Tensor) -> Tensor:
        """key, value [B, H, T, D] -> [B, T, width of both]."""
        return torch.cat([key.transpose(1, 2).flatten(2), value.transpose(1, 2).flatten(2)], dim=-1)


class TransformerState:
    """The state of all rows. host_lengths and host_source_lengths mirror the device's lengths on the host: target
    tokens read into each row, and the length of its source."""

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
        """lengths: of target and source. own, source: per layer, heads and width of keys and of values. positions
        [target length]: the network's position ids of the target tokens."""
        device = position_table.device
        self.own = [LayerCache(slots, lengths[0], key, value, dtype, device) for key, value in own]
        self.source = [LayerCache(slots, lengths[1], key, value, dtype, device) for key, value in source]
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.source_lengths = torch.zeros_like(self.lengths)
        self.host_lengths: Ints = np.zeros(slots, dtype=np.int64)
        self.host_source_lengths: Ints = np.zeros(slots, dtype=np.int64)
        self.position_table = position_table  # kept alive for CUDA graphs when the network grows a new table
        self.positions, self.target_length = positions, lengths[0]
        self.first = torch.arange(0, slots * lengths[0], lengths[0], device=device)  # flat index of each row's start

    def copy(self, sources: list[int], destinations: list[int], since: Sequence[int] | None) -> None:
        """See `models.interface.Decodable.copy`."""
        self._copy_positions(np.array(sources), np.array(destinations), np.array(since or [0] * len(sources)))
        if since is not None:
            return
        index, onto = upload(np.array([sources, destinations]), self.lengths.device).unbind(0)
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
        """Zeroes positions beyond the current lengths of `rows` that held data before (`held`: target and source
        lengths). A mask alone does not suffice: 0 · NaN is NaN, and low precision may produce NaN. On a GPU, free rows
        are also stepped and hold more than the counted tokens."""
        current = self.host_lengths, self.host_source_lengths
        for caches, lengths, before in zip((self.own, self.source), current, held, strict=True):
            whole = caches[0].both.size(1)
            ends = before.tolist() if self.lengths.device.type == "cpu" else [whole] * len(rows)
            for row, end in zip(rows, ends, strict=True):
                if lengths[row] < end:
                    for layer in caches:
                        layer.both[row, int(lengths[row]) : end] = 0

    def _copy_positions(self, sources: Ints, destinations: Ints, since: Ints) -> None:
        """Copies only positions from since[i] on: hypotheses of a beam rarely differ in more than their last tokens."""
        counts = self.host_lengths[sources] - since
        total = int(counts.sum())
        if total == 0:
            return
        # since[0], since[0] + 1, ..., since[1], since[1] + 1, ...
        places = np.arange(total) - np.repeat(np.cumsum(counts) - counts - since, counts)
        read, write = (np.repeat(rows * self.target_length, counts) + places for rows in (sources, destinations))
        index, onto = upload(np.stack([read, write]), self.lengths.device).unbind(0)
        for layer in self.own:
            layer.flat.index_copy_(0, onto, layer.flat.index_select(0, index))


@dataclass(slots=True)
class StepCache:
    """Cache of one step for rows 0..B-1 (`models.networks.transformer.Cache`). places [B]: indices into the flat
    caches; length: positions in use, the new one included."""

    state: TransformerState
    places: Tensor
    length: int

    def update(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        own, rows = self.state.own[layer], len(key)
        own.flat.index_copy_(0, self.places, own.joined(key, value).flatten(0, 1))
        return own.keys[:rows, :, : self.length], own.values[:rows, :, : self.length]


@dataclass(slots=True)
class PrefixCache:
    """Cache of prefill for rows index [B]. Prefix tokens attend to one another only, so nothing is read back."""

    state: TransformerState
    index: Tensor

    def update(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        own = self.state.own[layer]
        own.both[self.index, : key.size(2)] = own.joined(key, value)
        return key, value


@dataclass(slots=True)
class ShapeCache:
    """Records the shapes of keys and values and stores nothing."""

    shapes: list[tuple[Shape, Shape]]

    def update(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        self.shapes.append(((key.size(1), key.size(3)), (value.size(1), value.size(3))))
        return key, value


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on a CPU they take no memory before they are written to, since few sequences fill their slots."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(shape)
