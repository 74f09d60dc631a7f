"""A race on a noisy, shared machine: a scan picks each contender's best setting, then they take turns, and what counts
is the median over the rounds of the ratio within a round."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import NamedTuple

from benchmarks.processes import ContenderError, Crew, Setting, Work

TURN_S = 0.4  # a turn repeats its work until it lasts about so long, so that a clock tick or an interrupt is small
PAUSE_S = 0.25  # OpenMP's threads go on spinning for a while after their last work: not into the next one's turn
HOPELESS = 2.5  # times slower than the best so far: measured once and no more
PATIENCE, LEAST_PATIENCE_S, MOST_S = 8, 2.0, 600.0  # so many times the best so far, and it is not waited for
MOST_REPEATS = 50


class Crews:
    """Open crews, one for each setting that is in the race; all closed at the end."""

    def __init__(self) -> None:
        self._crews: dict[Setting, Crew] = {}

    def __enter__(self) -> Crews:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for crew in self._crews.values():
            crew.close()

    def of(self, setting: Setting) -> Crew:
        if setting not in self._crews:
            self._crews[setting] = Crew(setting)
        return self._crews[setting]


class Scanned(NamedTuple):
    seconds: float
    setting: Setting


def scan(settings: Sequence[Setting], cells: Mapping[str, Work], runs: int = 2) -> dict[str, list[Scanned]]:
    """cell -> the settings that can run it, the fastest first. A setting that fails in a cell, or is far behind the
    best so far, is dropped from that cell, with a note on standard error."""
    result: dict[str, list[Scanned]] = {name: [] for name in cells}
    for setting in settings:
        say(f"{time.strftime('%H:%M:%S')} scan {type(setting).__name__} {setting}")
        crew: Crew | None = None
        for name, work in cells.items():
            best = min((s.seconds for s in result[name]), default=math.inf)
            try:
                crew = crew or warmed(setting, work)
                result[name].append(Scanned(_scanned(crew, work, runs, best), setting))
            except ContenderError as error:  # its crew is closed
                say(f"{type(setting).__name__} {setting}, {name}: {error}")
                crew = None
        if crew is not None:
            crew.close()
    return {name: sorted(scanned, key=lambda s: s.seconds) for name, scanned in result.items()}


def warmed(setting: Setting, work: Work) -> Crew:
    crew = Crew(setting)
    crew.translate(work.part(0, len(work.sources)))  # one sentence
    return crew


def _scanned(crew: Crew, work: Work, runs: int, best: float) -> float:
    seconds = crew.translate(work, min(MOST_S, max(LEAST_PATIENCE_S, PATIENCE * best)))[0]
    if seconds < HOPELESS * best:
        seconds = min(seconds, *(crew.translate(work)[0] for _ in range(runs)))
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


class Ratio(NamedTuple):
    median: float
    least: float
    most: float


def ratio(ours: Sequence[float], peer: Sequence[float]) -> Ratio:
    """How many times as fast as the peer: seconds a round each -> the rounds' ratios."""
    each = [theirs / mine for mine, theirs in zip(ours, peer, strict=True)]
    return Ratio(*(round(value, 3) for value in (statistics.median(each), min(each), max(each))))


def say(line: str) -> None:
    """Progress, for people: standard output is for the figures."""
    print(line, file=sys.stderr, flush=True)
