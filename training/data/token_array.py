"""Token ids of many texts in one flat array, in memory or mapped from a file: two or four bytes a token."""

from __future__ import annotations

import os
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from training.data.cache_folder import cache_folder
from training.errors import TrainingError

Ids = NDArray[np.unsignedinteger[Any]]
IDS_FILE, LENGTHS_FILE = "{}.ids", "{}.lengths"  # of a side, little-endian


class TokenRows(Sequence[tuple[int, ...]]):
    """The token ids of many texts, of which batches are made without a Python object for each token."""

    lengths: NDArray[np.uint32]
    """[N]: tokens of each text."""

    @abstractmethod
    def _text(self, index: int) -> tuple[int, ...]:
        """index: from 0 to N-1."""

    @abstractmethod
    def padded(self, rows: NDArray[np.int64], value: int, width: int) -> NDArray[np.int64]:
        """The texts `rows`, in this order: [len(rows), width], padded with `value` at the end. width: at least the
        length of the longest of them."""

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, slice):
            return [self._text(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._text(index % len(self))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence) and len(self) == len(other) and all(map(tuple.__eq__, self, map(tuple, other)))
        )

    __hash__ = None  # type: ignore[assignment]


class TokenArray(TokenRows):
    """ids [T]: of all texts; lengths [N]: tokens of each text; starts [N]: of each text in `ids`, None if the texts
    stand one behind the other."""

    def __init__(self, ids: Ids, lengths: NDArray[np.uint32], starts: NDArray[np.int64] | None = None) -> None:
        self.ids, self.lengths = ids, lengths
        if starts is None:
            starts = np.zeros(len(lengths), np.int64)
            np.cumsum(lengths[:-1], out=starts[1:])
        self._starts = starts

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> TokenArray:
        """A copy in memory; a token array itself."""
        if isinstance(rows, TokenArray):
            return rows
        rows = list(rows)
        ids = np.fromiter(chain.from_iterable(rows), np.dtype(np.uint32))
        return cls(ids, np.fromiter(map(len, rows), np.uint32, len(rows)))

    def _text(self, index: int) -> tuple[int, ...]:
        start = int(self._starts[index])
        return tuple(self.ids[start : start + int(self.lengths[index])].tolist())

    def padded(self, rows: NDArray[np.int64], value: int, width: int) -> NDArray[np.int64]:
        columns = np.arange(width)
        within = columns < self.lengths[rows, None]
        padded = np.full((len(rows), width), value, np.int64)
        padded[within] = self.ids[(self._starts[rows, None] + columns)[within]]
        return padded

    def select(self, rows: Sequence[int]) -> TokenArray:
        """The texts `rows`, in this order; no token is copied."""
        places = np.asarray(rows, np.int64)
        return TokenArray(self.ids, self.lengths[places], self._starts[places])

    @classmethod
    def mapped(cls, folder: Path, side: str, vocabulary: int) -> TokenArray:
        """Maps the files that a `TokenWriter` with these arguments wrote. TrainingError if they are incomplete."""
        path, lengths = folder / IDS_FILE.format(side), np.fromfile(folder / LENGTHS_FILE.format(side), np.uint32)
        kind = id_type(vocabulary)
        if path.stat().st_size != int(lengths.sum(dtype=np.int64)) * kind.itemsize:
            raise TrainingError(f"{folder} is damaged: remove it, and the run makes it again.")
        return cls(np.memmap(path, kind, "r") if len(lengths) else np.zeros(0, kind), lengths)


def id_type(vocabulary: int) -> np.dtype[Any]:
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)


class TokenWriter:
    """Collects the token ids of texts: in memory, or with `in_file` in the files of a side, in `folder` or unnamed."""

    def __init__(self, vocabulary: int, folder: Path | None, side: str, *, in_file: bool) -> None:
        self._vocabulary, self._folder, self._side = vocabulary, folder, side
        self._lengths, self._parts = array("I"), list[Ids]()
        self._unnamed = TemporaryDirectory(dir=cache_folder()) if in_file and folder is None else None
        if self._unnamed:
            self._folder = Path(self._unnamed.name)
        self._file = (self._folder / IDS_FILE.format(side)).open("wb") if self._folder else None

    def extend(self, rows: Iterable[Sequence[int]]) -> None:
        rows = list(rows)
        self._lengths.extend(map(len, rows))
        ids = np.fromiter(chain.from_iterable(rows), id_type(self._vocabulary))
        if self._file:
            ids.tofile(self._file)
        else:
            self._parts.append(ids)

    def finish(self) -> TokenArray:
        lengths = np.frombuffer(self._lengths, np.uint32)
        if self._file is None or self._folder is None:
            return TokenArray(np.concatenate([np.zeros(0, id_type(self._vocabulary)), *self._parts]), lengths)
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        lengths.tofile(self._folder / LENGTHS_FILE.format(self._side))
        ids = TokenArray.mapped(self._folder, self._side, self._vocabulary)
        if self._unnamed:
            self._unnamed.cleanup()  # the map keeps the file's content
        return ids


class JoinedTokens(TokenRows):
    """All texts of `first`, then those of `second`; no token is copied."""

    def __init__(self, first: TokenRows, second: TokenRows) -> None:
        self.first, self.second = first, second
        self.lengths = np.concatenate([first.lengths, second.lengths])

    def _text(self, index: int) -> tuple[int, ...]:
        own = len(self.first)
        return self.first[index] if index < own else self.second[index - own]

    def padded(self, rows: NDArray[np.int64], value: int, width: int) -> NDArray[np.int64]:
        padded, own = np.empty((len(rows), width), np.int64), rows < len(self.first)
        padded[own] = self.first.padded(rows[own], value, width)
        padded[~own] = self.second.padded(rows[~own] - len(self.first), value, width)
        return padded


def token_rows(rows: Sequence[Sequence[int]]) -> TokenRows:
    """The rows themselves if batches can be made of them, else a copy."""
    return rows if isinstance(rows, TokenRows) else TokenArray.of(rows)
