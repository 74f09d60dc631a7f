"""Files to texts. Whatever is wrong with a file is said in one sentence that names it and the line."""

from __future__ import annotations

import gzip
import random
import zlib
from dataclasses import dataclass
from pathlib import Path

from training.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sources and targets, line by line; `dropped` counts pairs with an empty side. `origin`: where from."""

    sources: list[str]
    targets: list[str]
    dropped: int = 0
    origin: str = ""

    def __len__(self) -> int:
        return len(self.sources)


def read_text(path: Path) -> str:
    """The whole file, UTF-8 with or without a byte order mark, plain or gzipped."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise TrainingError(f"{path} does not exist.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise TrainingError(f"{path} cannot be read ({error}).") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1  # error.start does not count the byte order mark
        raise TrainingError(f"{path} is not valid UTF-8: line {line} has a broken character; convert it.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TrainingError(f"{path} holds a NUL character in line {line}: is it a text file?")
    return text


def read_lines(path: Path) -> list[str]:
    """Lines end at LF or CRLF alone: a Unicode line separator inside a sentence must not shift a parallel text."""
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    if lines[-1] == "":
        lines.pop()
    return lines


def read_pairs(argument: str) -> Pairs:
    """`SOURCE,TARGET` (two files, line by line) or one file of tab-separated pairs."""
    sources, targets = _two_columns(Path(argument)) if Path(argument).exists() else _two_files(argument)
    kept = [(s.strip(), t.strip()) for s, t in zip(sources, targets, strict=True) if s.strip() and t.strip()]
    if not kept:
        raise TrainingError(f"{argument} holds no pair of sentences.")
    return Pairs([s for s, _ in kept], [t for _, t in kept], len(sources) - len(kept), argument)


def _two_columns(path: Path) -> tuple[list[str], list[str]]:
    sources, targets = [], []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            raise TrainingError(
                f"{path} line {number} has {len(columns)} columns; a pair is two texts with one tab between."
            )
        sources.append(columns[0])
        targets.append(columns[1])
    return sources, targets


def _two_files(argument: str) -> tuple[list[str], list[str]]:
    names = argument.split(",")
    if len(names) != 2:
        what = "does not exist" if len(names) == 1 else f"names {len(names)} files"
        raise TrainingError(f"{argument} {what}: give SOURCE,TARGET (two files) or one file of tab-separated pairs.")
    sources, targets = (read_lines(Path(name)) for name in names)
    if len(sources) != len(targets):
        raise TrainingError(
            f"{names[0]} has {len(sources):,} lines and {names[1]} has {len(targets):,}: line n of one must"
            " translate line n of the other."
        )
    return sources, targets


def hold_out(pairs: Pairs, seed: int, share: float = 0.02, most: int = 1000) -> tuple[Pairs, Pairs | None]:
    """Training and validation pairs where no validation set was given. Fewer than 100 pairs: none is spared.

    Pairs that share a source or a target with a held-out one go with it, so that none is scored on what it saw.
    """
    if len(pairs) < 100:
        return pairs, None
    order = random.Random(seed).sample(range(len(pairs)), min(most, max(10, int(len(pairs) * share))))
    sources, targets = {pairs.sources[i] for i in order}, {pairs.targets[i] for i in order}
    chosen = set(order)
    rest = [i for i in range(len(pairs)) if pairs.sources[i] not in sources and pairs.targets[i] not in targets]
    if not rest:
        return pairs, None
    held_out = f"{len(chosen):,} pairs held out of {pairs.origin}"
    return _subset(pairs, rest, pairs.dropped, pairs.origin), _subset(pairs, sorted(chosen), 0, held_out)


def _subset(pairs: Pairs, indices: list[int], dropped: int, origin: str) -> Pairs:
    return Pairs([pairs.sources[i] for i in indices], [pairs.targets[i] for i in indices], dropped, origin)
