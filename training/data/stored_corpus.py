"""A corpus too large for memory: its texts in UTF-8 in one file, and the token ids of its texts in flat arrays, in the
cache folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import weakref
from abc import abstractmethod
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, mkdtemp
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from training.distributed.torchrun import environment_rank
from training.errors import TrainingError

VARIABLE = "TRAINING_CACHE"
BLOCK_TEXTS = 20_000  # decoded at once when texts are read in order


def cache_folder() -> Path:
    """The folder that TRAINING_CACHE names; ~/.cache/parlance/training without it."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "parlance" / "training"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock on this path against other processes, so that one of them does the work and the others find it. A
    process that has to wait says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if environment_rank() == 0:
                print(f"Waits for another process, which is making {path}.", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fill_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fills a new folder aside, then renames it, so that it is complete or absent, whatever ends the run. The caller
    holds its lock."""
    for remains in folder.parent.glob(f"{folder.name}.part-*"):  # of a killed run
        shutil.rmtree(remains, ignore_errors=True)
    aside = Path(mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        fill(aside)
        aside.chmod(0o755)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


Item = TypeVar("Item", bound=Sequence[Any])


class LazySequence(Sequence[Item]):
    """A sequence whose items are made when they are read. It equals sequences of the same items."""

    @abstractmethod
    def item(self, index: int) -> Item:
        """index: from 0 to N-1."""

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self.item(place) for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.item(index % len(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(list(mine) == list(theirs) for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class OpenFile:
    """A file descriptor that is closed with its last user. number: the descriptor."""

    def __init__(self, number: int) -> None:
        self.number = number
        weakref.finalize(self, os.close, number)


class TextArray(LazySequence[str]):
    """A sequence of texts whose memory is 12 bytes a text. It reads with `pread`, not a memory map, so that the pages
    of a corpus that was read once do not stay in the process."""

    def __init__(self, file: OpenFile, starts: NDArray[np.int64], lengths: NDArray[np.uint32]) -> None:
        """starts [N], lengths [N]: of the texts in the file, in bytes; starts ascend."""
        self._file, self._starts, self.bytes_of = file, starts, lengths

    def __len__(self) -> int:
        return len(self._starts)

    def item(self, index: int) -> str:
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
    """The texts of a file that holds them one after the other."""
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


Ids = NDArray[np.unsignedinteger[Any]]
IDS_FILE, LENGTHS_FILE = "{}.ids", "{}.lengths"  # of a side, little-endian


class TokenRows(LazySequence[tuple[int, ...]]):
    """The token ids of many texts, of which batches are made without a Python object for each token."""

    lengths: NDArray[np.uint32]
    """[N]: tokens of each text."""

    @abstractmethod
    def padded(self, rows: NDArray[np.int64], value: int, width: int) -> NDArray[np.int64]:
        """The texts `rows`, in this order: [len(rows), width], padded with `value` at the end. width: at least the
        length of the longest of them."""

    def __len__(self) -> int:
        return len(self.lengths)


class TokenArray(TokenRows):
    """ids [T]: of all texts; lengths [N]: tokens of each text; starts [N]: of each text in `ids`, None if the texts
    stand one after the other."""

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

    def item(self, index: int) -> tuple[int, ...]:
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

    def item(self, index: int) -> tuple[int, ...]:
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
