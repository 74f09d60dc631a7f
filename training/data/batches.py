"""Batches of token ids, in an order that depends on (seed, epoch) alone, so that a resumed run repeats it."""

from __future__ import annotations

import random
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.data.token_array import TokenArray, TokenRows

TokenIds = Sequence[int]
Batch = TypeVar("Batch")
Keys = NDArray[np.signedinteger[Any]]


class BatchRows(Sequence[Sequence[int]]):
    """Row indices of each batch, computed when they are read."""

    @abstractmethod
    def rows(self, batch: int) -> list[int]: ...

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        if isinstance(index, slice):
            return [self.rows(i) for i in range(*index.indices(len(self)))]
        return self.rows(index)


class Groups(BatchRows):
    """Batches that are consecutive parts of `order`, so that millions of batches are three arrays."""

    def __init__(self, order: NDArray[np.uint32], starts: Sequence[int], ends: Sequence[int]) -> None:
        self._order, self._starts, self._ends = order, starts, ends

    def __len__(self) -> int:
        return len(self._starts)

    def rows(self, batch: int) -> list[int]:
        rows: list[int] = self._order[self._starts[batch] : self._ends[batch]].tolist()
        return rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


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


WINDOW_PAIRS = 1 << 24  # shuffled and sorted together; some 40 bytes each while an epoch begins
PIECES = 16  # of a window, drawn from the whole corpus


def batches_by_length(
    lengths: Sequence[tuple[int, int]] | NDArray[np.int32],
    tokens_per_batch: int,
    seed: int,
    epoch: int,
    window: int = WINDOW_PAIRS,
) -> Sequence[Sequence[int]]:
    """Groups pairs of similar lengths into batches of at most `tokens_per_batch` padded tokens on the longer side, in
    random order; returns indices. A pair over the budget is a batch of its own. lengths [N, 2]: of source and target.

    A corpus of more than `window` pairs is cut into pieces; every window has other pieces of it in every epoch, and is
    batched when it is reached, so that memory and the part of the token files in use stay bounded."""
    values = np.asarray(lengths, np.int32).reshape(-1, 2)
    if len(values) <= window:
        return _window_batches(values, tokens_per_batch, random.Random(seed * 1_000_003 + epoch))
    return WindowedBatches(values, tokens_per_batch, seed, epoch, window)


def _window_batches(lengths: NDArray[np.int32], tokens_per_batch: int, generator: random.Random) -> Groups:
    order = array("I", range(len(lengths)))
    generator.shuffle(order)
    shuffled = np.frombuffer(order, np.uint32)
    keys = _sort_keys(lengths)[shuffled]
    by_length = np.argsort(keys, kind="stable")
    starts = _batch_starts(keys[by_length], lengths, tokens_per_batch)
    numbers = list(range(len(starts)))
    generator.shuffle(numbers)
    ends = [*starts[1:], len(lengths)]
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


class WindowedBatches(BatchRows):
    """The batches of a corpus that is larger than a window, one window after the other."""

    def __init__(self, lengths: NDArray[np.int32], tokens_per_batch: int, seed: int, epoch: int, window: int) -> None:
        self._lengths, self._tokens_per_batch, self._key = lengths, tokens_per_batch, f"{seed} {epoch}"
        piece = -(-window // PIECES)
        pieces = [(first, min(first + piece, len(lengths))) for first in range(0, len(lengths), piece)]
        random.Random(self._key).shuffle(pieces)
        self._windows = [pieces[first : first + PIECES] for first in range(0, len(pieces), PIECES)]
        counts = []
        for number in range(len(self._windows)):
            inside = lengths[self._rows_of_window(number)]
            counts.append(len(_batch_starts(np.sort(_sort_keys(inside)), inside, tokens_per_batch)))
        self._ends = np.cumsum(counts)
        self._current: tuple[int, NDArray[np.int64], Groups] | None = None

    def _rows_of_window(self, window: int) -> NDArray[np.int64]:
        return np.concatenate([np.arange(first, end) for first, end in sorted(self._windows[window])])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def rows(self, batch: int) -> list[int]:
        if not 0 <= batch < len(self):
            raise IndexError(batch)
        window = int(np.searchsorted(self._ends, batch, side="right"))
        if self._current is None or self._current[0] != window:
            inside, generator = self._rows_of_window(window), random.Random(f"{self._key} {window}")
            self._current = window, inside, _window_batches(self._lengths[inside], self._tokens_per_batch, generator)
        _, inside, groups = self._current
        at = batch - (int(self._ends[window - 1]) if window else 0)
        rows: list[int] = inside[groups[at]].tolist()
        return rows


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
