"""Texts of a corpus too large for memory: UTF-8 in one file, read in order in blocks or one at a time."""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import overload

import numpy as np
from numpy.typing import NDArray

from training.data.cache_folder import cache_folder

BLOCK_TEXTS = 20_000  # decoded at once when texts are read in order


class OpenFile:
    """A file descriptor that is closed with its last user. number: the descriptor."""

    def __init__(self, number: int) -> None:
        self.number = number
        weakref.finalize(self, os.close, number)


class TextArray(Sequence[str]):
    """A sequence of texts whose memory is 12 bytes a text. It reads with `pread`, not a memory map, so that the pages
    of a corpus that was read once do not stay in the process."""

    def __init__(self, file: OpenFile, starts: NDArray[np.int64], lengths: NDArray[np.uint32]) -> None:
        """starts [N], lengths [N]: of the texts in the file, in bytes; starts ascend."""
        self._file, self._starts, self.bytes_of = file, starts, lengths

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return os.pread(self._file.number, int(self.bytes_of[index]), int(self._starts[index])).decode()

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), BLOCK_TEXTS):
            yield from self.block(first, first + BLOCK_TEXTS)

    def block(self, first: int, end: int) -> list[str]:
        """Texts first..end-1, in one read."""
        starts, lengths = self._starts[first:end], self.bytes_of[first:end]
        if not len(starts):
            return []
        base = int(starts[0])
        data = os.pread(self._file.number, int(starts[-1]) + int(lengths[-1]) - base, base)
        places = (starts - base).tolist()
        return [data[at : at + size].decode() for at, size in zip(places, lengths.tolist(), strict=True)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def select(self, indices: Sequence[int]) -> TextArray:
        """The texts at these ascending indices, in the same file."""
        places = np.asarray(indices, dtype=np.int64)
        return TextArray(self._file, self._starts[places], self.bytes_of[places])


class TextWriter:
    """Appends texts to a new file; without a path to one without a name, which ends with its last reader."""

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder) as file:
                self._file = OpenFile(os.dup(file.fileno()))
        else:
            self._file = OpenFile(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o644))
        self._lengths = array("I")

    def extend(self, texts: Iterable[str]) -> None:
        encoded = [text.encode() for text in texts]
        self._lengths.extend(map(len, encoded))
        data = memoryview(b"".join(encoded))
        while data:
            data = data[os.write(self._file.number, data) :]

    def finish(self) -> TextArray:
        return text_array(self._file, np.frombuffer(self._lengths, np.uint32))


def text_array(file: OpenFile, lengths: NDArray[np.uint32]) -> TextArray:
    """The texts of a file that holds them one behind the other."""
    starts = np.zeros(len(lengths), np.int64)
    np.cumsum(lengths[:-1], out=starts[1:])
    return TextArray(file, starts, lengths)


def selected(texts: Sequence[str], indices: Sequence[int]) -> Sequence[str]:
    return texts.select(indices) if isinstance(texts, TextArray) else [texts[i] for i in indices]


def blocks(texts: Sequence[str], size: int = BLOCK_TEXTS) -> Iterator[list[str]]:
    """The texts in order, `size` at a time."""
    for first in range(0, len(texts), size):
        yield texts.block(first, first + size) if isinstance(texts, TextArray) else list(texts[first : first + size])


def hashes(values: Iterable[Hashable], count: int) -> NDArray[np.int64]:
    """[count]: 64 bits of each value. Among ten million values two share theirs with a probability of 3e-6."""
    return np.fromiter(map(hash, values), np.int64, count)
