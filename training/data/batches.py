"""Batches of token ids, in an order that depends on (seed, epoch) alone, so that a resumed run repeats it."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.data.stored_corpus import LazySequence, TokenArray, TokenRows

TokenIds = Sequence[int]
Batch = TypeVar("Batch", bound=Sequence[Any])
Keys = NDArray[np.signedinteger[Any]]


class Groups(LazySequence[list[int]]):
    """Batches that are consecutive parts of `order`, so that millions of batches are three arrays."""

    def __init__(self, order: NDArray[np.uint32], starts: Sequence[int], ends: Sequence[int]) -> None:
        self._order, self._starts, self._ends = order, starts, ends

    def __len__(self) -> int:
        return len(self._starts)

    def item(self, index: int) -> list[int]:
        rows: list[int] = self._order[self._starts[index] : self._ends[index]].tolist()
        return rows


class LazyBatches(LazySequence[Batch]):
    """Builds each batch on access, so that the batches of a million pairs need not fit into memory."""

    def __init__(self, groups: Sequence[Sequence[int]], make: Callable[[Sequence[int]], Batch]) -> None:
        """groups: row indices of each batch."""
        self.groups, self.make = groups, make

    def __len__(self) -> int:
        return len(self.groups)

    def item(self, index: int) -> Batch:
        return self.make(self.groups[index])


class PairBatch(NamedTuple):
    """Padded pairs: source [B, S]; inputs and outputs [B, T], the target shifted by one."""

    source: Tensor
    inputs: Tensor
    outputs: Tensor


def batches_by_length(
    lengths: Sequence[tuple[int, int]] | NDArray[np.int32], tokens_per_batch: int, seed: int, epoch: int
) -> Groups:
    """Groups pairs of similar lengths into batches of at most `tokens_per_batch` padded tokens on the longer side, in
    random order; returns indices. A pair over the budget is a batch of its own. lengths [N, 2]: of source and target.
    It takes some 40 bytes a pair while an epoch begins."""
    values, generator = np.asarray(lengths, np.int32).reshape(-1, 2), random.Random(seed * 1_000_003 + epoch)
    order = array("I", range(len(values)))
    generator.shuffle(order)
    shuffled = np.frombuffer(order, np.uint32)
    keys = _sort_keys(values)[shuffled]
    by_length = np.argsort(keys, kind="stable")
    starts = _batch_starts(keys[by_length], values, tokens_per_batch)
    numbers = list(range(len(starts)))
    generator.shuffle(numbers)
    ends = [*starts[1:], len(values)]
    return Groups(shuffled[by_length], [starts[n] for n in numbers], [ends[n] for n in numbers])


def _sort_keys(lengths: NDArray[np.int32]) -> Keys:
    """[N]: integers in the order of (target length, source length), of four bytes if they fit."""
    width = int(lengths[:, 0].max(initial=0)) + 1
    most = width * (int(lengths[:, 1].max(initial=0)) + 1)
    keys: Keys = lengths[:, 1].astype(np.int32 if most < 1 << 31 else np.int64)
    keys *= width
    keys += lengths[:, 0]
    return keys


def _batch_starts(keys: Keys, lengths: NDArray[np.int32], tokens_per_batch: int) -> list[int]:
    """The index of the first pair of each batch. keys: the sort keys of the pairs, in order (`_sort_keys`). The work is
    in proportion to the number of distinct keys, not of pairs."""
    if not len(keys):
        return []
    starts, longest, size = [0], 0, 0  # of the running batch
    widest = int(lengths[:, 0].max()) + 1
    firsts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    for first, count, key in zip(
        firsts.tolist(), np.diff(np.r_[firsts, len(keys)]).tolist(), keys[firsts].tolist(), strict=True
    ):
        length, place = max(divmod(key, widest)), first
        while place < first + count:
            longest = max(longest, length)
            if size and longest * (size + 1) > tokens_per_batch:
                starts.append(place)
                longest, size = length, 0
            taken = min(first + count - place, max(1, tokens_per_batch // max(longest, 1) - size))
            size, place = size + taken, place + taken
    return starts


def padded_pairs(sources: TokenRows, targets: TokenRows, rows: Sequence[int], pad_id: int) -> PairBatch:
    """The pairs `rows`, padded to a batch; targets include start and end tokens."""
    indices = np.asarray(rows, np.int64)
    source, target = (
        torch.from_numpy(side.padded(indices, pad_id, int(side.lengths[indices].max()))) for side in (sources, targets)
    )
    return PairBatch(source, target[:, :-1], target[:, 1:])


def pair_batch(sources: Sequence[TokenIds], targets: Sequence[TokenIds], pad_id: int) -> PairBatch:
    """`padded_pairs` of texts that are not in token arrays."""
    return padded_pairs(TokenArray.of(sources), TokenArray.of(targets), range(len(sources)), pad_id)


class TextBatch(NamedTuple):
    """Text windows: inputs and outputs [B, T], shifted by one; carry: whether the state of the last batch continues."""

    inputs: Tensor
    outputs: Tensor
    carry: bool


def random_windows(
    text: Tensor, rows: int, steps: int, generator: random.Random, stride: int | None = None
) -> Iterator[TextBatch]:
    """Windows in random order; an incomplete last batch is dropped for this epoch. stride: from the beginning of one to
    that of the next; None: `steps`, so that none overlap."""
    stride = stride or steps
    starts = list(range((len(text) - 1 - steps) // stride + 1))
    generator.shuffle(starts)
    for i in range(len(starts) // rows):
        at = [start * stride for start in starts[i * rows : (i + 1) * rows]]
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
