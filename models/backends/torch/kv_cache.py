"""What a Transformer has read of each row: keys and values of its own tokens and of its source, allocated once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.networks.layers import KeyValue

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class TransformerState:
    """Static caches. A row's keys and values of one position stand together, so that one copy writes both.

    host_lengths and host_source_lengths say on the host what the device knows too: how many target tokens were read
    into a row, and how long its source is.
    """

    cache: Tensor  # [L, slots, T, 2, H, D]
    source_cache: Tensor  # [L, slots, S, 2, H, D]
    keys: Tensor  # this and the next three: views of these two, [L, slots, H, T or S, D]
    values: Tensor
    source_keys: Tensor
    source_values: Tensor
    lengths: Tensor  # [slots]
    source_lengths: Tensor  # [slots]
    host_lengths: Ints  # [slots]
    host_source_lengths: Ints  # [slots]
    positions: Tensor  # [>= T, C]; kept here, for a CUDA graph reads it though the network may grow another
    first: Tensor  # [slots]: where a row's positions begin in the flat caches
    flat: list[Tensor]  # a layer: the cache as [slots·T, 2·H·D]

    @classmethod
    def of(
        cls,
        slots: int,
        source_length: int,
        target_length: int,
        widths: tuple[int, int, int],
        dtype: torch.dtype,
        positions: Tensor,
    ) -> TransformerState:
        """Of `slots` rows that hold nothing. widths: layers, heads, and the width of a head."""
        (layers, *heads), device = widths, positions.device
        own, source = (zeros((layers, slots, n, 2, *heads), dtype, device) for n in (target_length, source_length))
        return cls(
            own,
            source,
            *key_value(own),
            *key_value(source),
            lengths=torch.zeros(slots, dtype=torch.long, device=device),
            source_lengths=torch.zeros(slots, dtype=torch.long, device=device),
            host_lengths=np.zeros(slots, dtype=np.int64),
            host_source_lengths=np.zeros(slots, dtype=np.int64),
            positions=positions,
            first=torch.arange(0, slots * target_length, target_length, device=device),
            flat=list(own.view(layers, slots * target_length, -1).unbind(0)),
        )

    def copy(self, sources: list[int], destinations: list[int], since: Sequence[int] | None) -> None:
        """As `models.interface.Decodable.copy` says."""
        self._copy_positions(np.array(sources), np.array(destinations), np.array(since or [0] * len(sources)))
        if since is None:
            index, onto = torch.tensor([sources, destinations], device=self.cache.device).unbind(0)
            moved = self.source_cache[:, :, : int(self.host_source_lengths[sources].max())]
            moved.index_copy_(1, onto, moved.index_select(1, index))
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
        caches = (self.cache, self.host_lengths, held[0]), (self.source_cache, self.host_source_lengths, held[1])
        for held_in, lengths, before in caches:
            ends = before.tolist() if self.cache.device.type == "cpu" else [held_in.size(2)] * len(rows)
            for row, end in zip(rows, ends, strict=True):
                if lengths[row] < end:
                    held_in[:, row, int(lengths[row]) : end] = 0

    def _copy_positions(self, sources: Ints, destinations: Ints, since: Ints) -> None:
        """Keys and values of the positions since[i] and on, and of no others: hypotheses of a beam seldom differ in
        more than their last tokens."""
        counts = self.host_lengths[sources] - since
        total = int(counts.sum())
        if total == 0:
            return
        # since[0], since[0] + 1, ..., since[1], since[1] + 1, ...
        places = np.arange(total) - np.repeat(np.cumsum(counts) - counts - since, counts)
        read, write = (np.repeat(rows * self.cache.size(2), counts) + places for rows in (sources, destinations))
        index, onto = torch.from_numpy(np.stack([read, write])).to(self.cache.device).unbind(0)
        for flat in self.flat:
            flat.index_copy_(0, onto, flat.index_select(0, index))


def key_value(both: Tensor) -> KeyValue:
    """[..., T, 2, H, D] -> two views [..., H, T, D]."""
    key, value = both.transpose(-2, -4).unbind(-3)
    return key, value


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on a CPU such as take no memory before they are written to: few sequences are as long as their slots."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(shape)
