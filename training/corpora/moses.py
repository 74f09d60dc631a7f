"""Two files, line by line, as the Moses toolkit has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.corpora.files import numbered_lines, read_lines
from training.corpora.pairs import Row
from training.errors import TrainingError
from training.wording import counted

CLEARLY = 0.8  # the lengths must fit so much better behind a shift before a line is named
WORST = 3.0  # of one line's cost: an outlier, or a blank line against a text, counts no more than this


def read_moses(source: Path, target: Path) -> Iterator[Row]:
    """TrainingError if the files have unequal numbers of lines: it names where they most likely part."""
    lines, others = numbered_lines(source), numbered_lines(target)
    for number, text in lines:
        other = next(others, None)
        if other is None:
            raise _unequal(source, target)
        yield number, text, other[1]
    if next(others, None) is not None:
        raise _unequal(source, target)


def _unequal(source: Path, target: Path) -> TrainingError:
    texts, others = read_lines(source), read_lines(target)
    counts = f"{source} has {counted(len(texts), 'line')} and {target} has {len(others):,}"
    most = min(len(texts), len(others)) + 1
    line = parting(texts, others)
    where = f"most likely at line {line:,}" if line < most else f"at line {most:,} at the latest"
    return TrainingError(f"{counts}: line n of one must translate line n of the other, and they part {where}.")


def parting(texts: Sequence[str], others: Sequence[str]) -> int:
    """The line from 1 from which the longer file is ahead by what it has too many.

    Translations have similar lengths (Gale and Church 1993), so the line is the one where "aligned before, shifted
    behind" fits the lengths best; the one behind the shorter file's end unless another fits clearly better.
    """
    longer, shorter = (texts, others) if len(texts) > len(others) else (others, texts)
    long = np.log1p(np.fromiter(map(len, longer), float))
    short = np.log1p(np.fromiter(map(len, shorter), float))
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
