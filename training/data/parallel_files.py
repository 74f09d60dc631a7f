"""Moses' form of a corpus: two files, aligned line by line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from training.data.corpus_files import raw_lines, readable_lines
from training.data.sentence_pairs import LeftOutRow, Row
from training.errors import TrainingError, pluralize

CLEARLY = 0.8  # ratio by which a shift must improve the length fit before its line is named
WORST = 3.0  # maximum cost of a line: bounds outliers, and blank lines against texts


def read_moses(source: Path, target: Path, *, skip_malformed: bool = False) -> Iterator[Row | LeftOutRow]:
    """Pairs of parallel lines. TrainingError if the files differ in length, with the likely line of divergence."""
    for line, other in zip_longest(readable_lines(source, skip_malformed), readable_lines(target, skip_malformed)):
        if line is None or other is None:
            raise _differing_lengths(source, target)
        if isinstance(line, LeftOutRow) or isinstance(other, LeftOutRow):
            yield line if isinstance(line, LeftOutRow) else cast(LeftOutRow, other)
        else:
            yield *line, other[1]


def _differing_lengths(source: Path, target: Path) -> TrainingError:
    lengths, others = map(_line_lengths, (source, target))
    counts = f"{source} has {pluralize(len(lengths), 'line')} and {target} has {len(others):,}"
    most, place = min(len(lengths), len(others)) + 1, parting(lengths, others)
    where = f"most likely at line {place:,}" if place < most else f"at line {most:,} at the latest"
    return TrainingError(f"{counts}: line n of one must translate line n of the other, and they part {where}.")


def _line_lengths(path: Path) -> NDArray[np.int64]:
    return np.fromiter((len(raw.decode(errors="replace")) for _, raw in raw_lines(path)), np.int64)


def parting(lengths: NDArray[np.int64], others: NDArray[np.int64]) -> int:
    """The line, from 1, where the longer file most likely has its surplus lines. lengths, others: characters of the
    lines of two files. Translations have similar lengths (Gale and Church 1993), so it is the split where "aligned
    before, shifted behind" fits the lengths best; the first line behind the shorter file's end unless another fits
    clearly better."""
    longer, shorter = (lengths, others) if len(lengths) > len(others) else (others, lengths)
    long, short = np.log1p(longer.astype(float)), np.log1p(shorter.astype(float))
    surplus = len(long) - len(short)
    if not len(short):
        return 1
    typical = float(np.median(long)) - float(np.median(short))
    before = _cost(long[: len(short)] - short - typical, long[: len(short)], short)
    behind = _cost(long[surplus:] - short - typical, long[surplus:], short)
    # costs[k]: lines 1..k aligned, the rest shifted
    costs = np.concatenate([[0.0], np.cumsum(before)]) + np.concatenate([np.cumsum(behind[::-1])[::-1], [0.0]])
    best = int(np.argmin(costs))
    tail = slice(best, None)
    clear = best < len(short) and behind[tail].mean() < CLEARLY * before[tail].mean()
    return (best if clear else len(short)) + 1


def _cost(difference: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    cost: NDArray[np.float64] = np.minimum(np.abs(difference), WORST)
    cost[(a == 0) != (b == 0)] = WORST
    return cost
