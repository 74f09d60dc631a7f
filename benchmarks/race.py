"""A race on a noisy, shared machine: a scan picks each contender's best setting, then they take turns, and what counts
is the median over the rounds of the ratio within a round."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple, TypeVar

from benchmarks.processes import ContenderError, Crew, Setting, Work

TURN_S = 0.4  # a turn repeats its work until it lasts about so long, so that a clock tick or an interrupt is small
PAUSE_S = 0.25  # OpenMP's threads go on spinning for a while after their last work: not into the next one's turn
HOPELESS = 2.5  # times slower than the best so far: measured once and no more
PATIENCE, LEAST_PATIENCE_S, MOST_S = 8, 2.0, 600.0  # so many times the best so far, and it is not waited for
MOST_REPEATS = 50
T = TypeVar("T")


class Crews(ExitStack):
    """Open crews, one for each setting that is in the race; all closed at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._crews: dict[Setting, Crew] = {}

    def of(self, setting: Setting) -> Crew:
        if setting not in self._crews:
            self._crews[setting] = self.enter_context(Crew(setting))
        return self._crews[setting]


def scan(settings: Sequence[Setting], cells: Mapping[str, Work]) -> dict[str, list[Setting]]:
    """cell -> the settings that can run it, the fastest first. A setting that fails in a cell, or is far behind the
    best so far, is dropped from that cell, with a note on standard error."""
    seconds: dict[str, dict[Setting, float]] = {name: {} for name in cells}
    for setting in settings:
        say(f"{time.strftime('%H:%M:%S')} scan {type(setting).__name__} {setting}")
        crew: Crew | None = None
        for name, work in cells.items():
            try:
                if crew is None:
                    crew = Crew(setting)
                    crew.translate(work.part(0, len(work.sources)))  # one sentence
                seconds[name][setting] = _scanned(crew, work, min(seconds[name].values(), default=math.inf))
            except ContenderError as error:  # its crew is closed
                say(f"{type(setting).__name__} {setting}, {name}: {error}")
                crew = None
        if crew is not None:
            crew.close()
    return {name: sorted(times, key=lambda setting: times[setting]) for name, times in seconds.items()}


def _scanned(crew: Crew, work: Work, best: float) -> float:
    seconds = crew.translate(work, min(MOST_S, max(LEAST_PATIENCE_S, PATIENCE * best)))[0]
    if seconds < HOPELESS * best:
        seconds = min(seconds, *(crew.translate(work)[0] for _ in range(2)))
    time.sleep(PAUSE_S)
    return seconds


class Turns(NamedTuple):
    seconds: list[float]  # of one repetition, a round each
    tokens: int  # that one repetition wrote

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def tokens_per_second(self) -> float:
        return round(self.tokens / self.median, 1)


def interleave(crews: Sequence[Crew], work: Work, rounds: int, pause_s: float = PAUSE_S) -> list[Turns]:
    """All take turns, `rounds` times, in one order. The first repetition of each is a warm-up and not counted.
    ContenderError if one does not write what was forced."""
    tokens, repeats = [], []
    for crew in crews:
        crew.translate(work)
        seconds, written = crew.translate(work)
        tokens.append(sum(map(len, written)))
        if work.forced and tokens[-1] != sum(work.limits):
            raise ContenderError(f"{crew.setting} wrote {tokens[-1]} tokens and not {sum(work.limits)}")
        repeats.append(min(MOST_REPEATS, max(1, math.ceil(TURN_S / seconds))))
    results: list[list[float]] = [[] for _ in crews]
    for _ in range(rounds):
        for place, crew in enumerate(crews):
            time.sleep(pause_s)
            total = sum(crew.translate(work)[0] for _ in range(repeats[place]))
            results[place].append(total / repeats[place])
    return [Turns(seconds, count) for seconds, count in zip(results, tokens, strict=True)]


def in_turns(rounds: int, contenders: Mapping[str, Callable[[int], T]]) -> dict[str, list[T]]:
    """What each contender measures in each round, whose number it gets; every other round in the reverse order."""
    results: dict[str, list[T]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name in list(contenders)[:: 1 if number % 2 else -1]:
            results[name].append(contenders[name](number))
    return results


class Ratio(NamedTuple):
    median: float
    least: float
    most: float


def ratio(ours: Sequence[float], peer: Sequence[float], *, rates: bool = False) -> Ratio:
    """How many times as fast as the peer: seconds of each round (rates: work a second) -> the rounds' ratios."""
    each = [mine / theirs if rates else theirs / mine for mine, theirs in zip(ours, peer, strict=True)]
    return Ratio(*(round(value, 3) for value in (statistics.median(each), min(each), max(each))))


def say(line: str) -> None:
    """Progress, for people: standard output is for the figures."""
    print(line, file=sys.stderr, flush=True)
