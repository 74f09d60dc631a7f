"""Batches of token ids, in an order that depends on (seed, epoch) alone, so that a resumed run repeats it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar, overload

import torch
from torch import Tensor

TokenIds = Sequence[int]
Batch = TypeVar("Batch")


class LazyBatches(Sequence[Batch], Generic[Batch]):
    """Builds each batch on access, so that the batches of a million pairs need not fit into memory."""

    def __init__(self, groups: Sequence[Sequence[int]], make: Callable[[Sequence[int]], Batch]) -> None:
        """groups: row indices of each batch."""
        self.groups, self.make = groups, make

    def __len__(self) -> int:
        return len(self.groups)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        if isinstance(index, slice):
            return [self.make(group) for group in self.groups[index]]
        return self.make(self.groups[index])


class PairBatch(NamedTuple):
    """Padded pairs: source [B, S]; inputs and outputs [B, T], the target shifted by one."""

    source: Tensor
    inputs: Tensor
    outputs: Tensor


def batches_by_length(
    lengths: Sequence[tuple[int, int]], tokens_per_batch: int, seed: int, epoch: int
) -> list[list[int]]:
    """Groups pairs of similar lengths into batches of at most `tokens_per_batch` padded tokens on the longer side, in
    random order; returns indices. A pair over the budget is a batch of its own."""
    generator = random.Random(seed * 1_000_003 + epoch)
    order = list(range(len(lengths)))
    generator.shuffle(order)
    order.sort(key=lambda i: (lengths[i][1], lengths[i][0]))
    batches: list[list[int]] = [[]]
    longest = 0
    for index in order:
        longest = max(longest, *lengths[index])
        if batches[-1] and longest * (len(batches[-1]) + 1) > tokens_per_batch:
            batches.append([])
            longest = max(lengths[index])
        batches[-1].append(index)
    generator.shuffle(batches)
    return batches


def pad_rows(rows: Sequence[TokenIds], value: int) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def pair_batch(sources: Sequence[TokenIds], targets: Sequence[TokenIds], pad_id: int) -> PairBatch:
    """Pads pairs to a batch; targets include start and end tokens."""
    target = pad_rows(targets, pad_id)
    return PairBatch(pad_rows(sources, pad_id), target[:, :-1], target[:, 1:])


class TextBatch(NamedTuple):
    """Text windows: inputs and outputs [B, T], shifted by one; carry: whether the state of the last batch continues."""

    inputs: Tensor
    outputs: Tensor
    carry: bool


def random_windows(text: Tensor, rows: int, steps: int, generator: random.Random) -> Iterator[TextBatch]:
    """Non-overlapping windows in random order; an incomplete last batch is dropped for this epoch."""
    starts = list(range((len(text) - 1) // steps))
    generator.shuffle(starts)
    for i in range(len(starts) // rows):
        at = [start * steps for start in starts[i * rows : (i + 1) * rows]]
        inputs = torch.stack([text[p : p + steps] for p in at])
        outputs = torch.stack([text[p + 1 : p + 1 + steps] for p in at])
        yield TextBatch(inputs, outputs, carry=False)


def consecutive_windows(text: Tensor, rows: int, steps: int, offset: int = 0) -> Iterator[TextBatch]:
    """Windows of the text from `offset` on in `rows` lanes, in order, so that the state carries over."""
    text = text[offset:]
    length = len(text) // rows
    lanes = text[: length * rows].view(rows, length)
    for i in range(0, (length - 1) // steps * steps, steps):
        yield TextBatch(lanes[:, i : i + steps], lanes[:, i + 1 : i + 1 + steps], carry=i > 0)
