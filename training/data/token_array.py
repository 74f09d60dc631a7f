"""Token ids of many texts in one flat array, in memory or mapped from a file: two or four bytes a token."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.unsignedinteger[Any]]
IDS_FILE, LENGTHS_FILE = "{}.ids", "{}.lengths"  # of a side, little-endian


class TokenArray(Sequence[tuple[int, ...]]):
    """ids [T]: of all texts, one behind the other; lengths [N]: tokens of each text."""

    def __init__(self, ids: Ids, lengths: NDArray[np.uint32]) -> None:
        self.ids, self.lengths = ids, lengths
        self._ends = np.cumsum(lengths, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        end = int(self._ends[index])
        return tuple(self.ids[end - int(self.lengths[index]) : end].tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TokenArray):
            return np.array_equal(self.lengths, other.lengths) and np.array_equal(self.ids, other.ids)
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def mapped(cls, folder: Path, side: str, kind: np.dtype[Any]) -> TokenArray:
        """Maps the files that a `TokenWriter` of this folder wrote. kind: uint16 or uint32."""
        path, lengths = folder / IDS_FILE.format(side), np.fromfile(folder / LENGTHS_FILE.format(side), np.uint32)
        ids = np.memmap(path, kind, "r") if path.stat().st_size else np.zeros(0, kind)
        return cls(ids, lengths)


class TokenWriter:
    """Collects the token ids of texts in memory, or in the files of a side in `folder`."""

    def __init__(self, vocabulary: int, folder: Path | None = None, side: str = "") -> None:
        self.kind = np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)
        self._lengths, self._parts, self._folder, self._side = array("I"), list[Ids](), folder, side
        self._file = (folder / IDS_FILE.format(side)).open("wb") if folder else None

    def extend(self, rows: Iterable[Sequence[int]]) -> None:
        rows = list(rows)
        self._lengths.extend(map(len, rows))
        ids = np.fromiter(chain.from_iterable(rows), self.kind)
        if self._file:
            ids.tofile(self._file)
        else:
            self._parts.append(ids)

    def finish(self) -> TokenArray:
        lengths = np.frombuffer(self._lengths, np.uint32)
        if self._file is None or self._folder is None:
            return TokenArray(np.concatenate(self._parts) if self._parts else np.zeros(0, self.kind), lengths)
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        lengths.tofile(self._folder / LENGTHS_FILE.format(self._side))
        return TokenArray.mapped(self._folder, self._side, self.kind)


def token_array(rows: Iterable[Sequence[int]], vocabulary: int) -> TokenArray:
    writer = TokenWriter(vocabulary)
    writer.extend(rows)
    return writer.finish()


def lengths_of(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """[N]: tokens of each text."""
    if isinstance(rows, TokenArray):
        return rows.lengths.astype(np.int64)
    return np.fromiter(map(len, rows), np.int64, len(rows))


def blocks_of_rows(rows: Sequence[Sequence[int]], size: int) -> Iterator[list[Sequence[int]]]:
    for first in range(0, len(rows), size):
        yield list(rows[first : first + size])
