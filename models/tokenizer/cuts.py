"""Words cut into pieces at random, so that a network sees more than one cut of each: BPE-dropout (Provilkov et al.
2020, arXiv 1910.13267) and samples of a unigram model (Kudo 2018, arXiv 1804.10959).

SentencePiece can do both, but since 0.2.3 its numbers repeat within one process alone, whatever the seed: a resumed
run would see other cuts, and so would each process of a shared one.
"""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Protocol

UNLIKELY = 10.0  # by so much an unknown character scores less than the least likely piece, as in SentencePiece


MOST_KEPT = 200_000  # words, or places where a merge is decided: of so many it is kept what they come to, some 60 MB


class Cutter(Protocol):
    def cut(self, word: str, generator: random.Random) -> tuple[str, ...]: ...


class Fork:
    """Parts of a word, and the merge of two of them that comes up next; what follows from doing it and from leaving it
    out is worked out once, when somebody comes that way. rank_of: of a merged piece; none is -inf."""

    __slots__ = ("_at", "_parts", "_rank_of", "_ranks", "done", "left_out")

    def __init__(self, parts: list[str], ranks: list[float], rank_of: Callable[[str], float]) -> None:
        self._parts, self._ranks, self._rank_of, self._at = parts, ranks, rank_of, ranks.index(max(ranks))
        self.done: Fork | tuple[str, ...] | None = None
        self.left_out: Fork | tuple[str, ...] | None = None

    def merge(self) -> Fork | tuple[str, ...]:
        parts, ranks, at = self._parts.copy(), self._ranks.copy(), self._at
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del ranks[at]
        for changed in range(max(at - 1, 0), min(at + 1, len(ranks))):
            ranks[changed] = self._rank_of(parts[changed] + parts[changed + 1])
        return fork(parts, ranks, self._rank_of)

    def leave_out(self) -> Fork | tuple[str, ...]:
        ranks = self._ranks.copy()
        ranks[self._at] = -math.inf
        return fork(self._parts, ranks, self._rank_of)


def fork(parts: list[str], ranks: list[float], rank_of: Callable[[str], float]) -> Fork | tuple[str, ...]:
    """The parts themselves where no merge comes up."""
    return Fork(parts, ranks, rank_of) if max(ranks, default=-math.inf) > -math.inf else tuple(parts)


class DroppedMerges:
    """Byte-pair merges, the best first and of equals the leftmost; each that comes up is left out with probability
    `share`. What each choice comes to is kept, for words come again."""

    def __init__(self, scores: Mapping[str, float], share: float) -> None:
        self.scores, self.share = scores, share
        self._whole: dict[str, tuple[tuple[str, ...], float]] = {}  # every merge done, and the probability of that
        self._forks: dict[str, Fork] = {}  # the first of a word
        self._made = 0

    def cut(self, word: str, generator: random.Random) -> tuple[str, ...]:
        whole, reached = self._whole.get(word) or self._merged(word)
        drawn = generator.random()
        return whole if drawn < reached else self._chosen(word, drawn, generator)

    def _chosen(self, word: str, drawn: float, generator: random.Random) -> tuple[str, ...]:
        """drawn < (1 - share)^n: the first n merges are done. Then one is not, and the generator decides about the
        others."""
        found: Fork | tuple[str, ...] = self._forks.get(word) or self._first(word)
        kept, share = 1.0 - self.share, self.share
        if isinstance(found, Fork) and len(self._forks) < MOST_KEPT:
            self._forks[word] = found
        reached = kept
        while isinstance(found, Fork) and drawn < reached:
            found, reached = found.done or self._done(found), reached * kept
        if isinstance(found, Fork):
            found = found.left_out or self._left_out(found)
        while isinstance(found, Fork):
            if generator.random() < share:
                found = found.left_out or self._left_out(found)
            else:
                found = found.done or self._done(found)
        return found

    def _done(self, at: Fork) -> Fork | tuple[str, ...]:
        found = at.merge()
        if self._made < MOST_KEPT:
            at.done, self._made = found, self._made + 1
        return found

    def _left_out(self, at: Fork) -> Fork | tuple[str, ...]:
        found = at.leave_out()
        if self._made < MOST_KEPT:
            at.left_out, self._made = found, self._made + 1
        return found

    def _merged(self, word: str) -> tuple[tuple[str, ...], float]:
        at, reached = self._first(word), 1.0
        while isinstance(at, Fork):
            at, reached = at.merge(), reached * (1.0 - self.share)
        if len(self._whole) < MOST_KEPT:
            self._whole[word] = at, reached
        return at, reached

    def _first(self, word: str) -> Fork | tuple[str, ...]:
        parts = list(word)
        return fork(parts, [self._rank(a + b) for a, b in itertools.pairwise(parts)], self._rank)

    def _rank(self, piece: str) -> float:
        return self.scores.get(piece, -math.inf)


Choices = tuple[list[float], list[int]]
"""Of a place in a word: where the piece that ends there may start, behind the cumulated probabilities of these."""


class LikelyCuts:
    """Cuts of a unigram model, each as likely as the product of its pieces' probabilities to the power `alpha`."""

    def __init__(self, scores: Mapping[str, float], alpha: float) -> None:
        self.scores, self.alpha = scores, alpha
        self.longest = max(map(len, scores))
        self.unknown = min(scores.values()) - UNLIKELY
        self._ends: dict[str, list[Choices]] = {}

    def cut(self, word: str, generator: random.Random) -> tuple[str, ...]:
        ends = self._ends.get(word) or self._kept(word)
        parts, end = list[str](), len(word)
        while end:
            reached, starts = ends[end]
            start = starts[bisect_right(reached, generator.random())]
            parts.append(word[start:end])
            end = start
        return tuple(parts[::-1])

    def _kept(self, word: str) -> list[Choices]:
        found = self._choices(word)
        if len(self._ends) < MOST_KEPT:
            self._ends[word] = found
        return found

    def _choices(self, word: str) -> list[Choices]:
        total, choices = [0.0], list[Choices]([([], [])])
        for end in range(1, len(word) + 1):
            each = []
            for start in range(max(0, end - self.longest), end):
                score = self._score(word[start:end])
                if score is not None:
                    each.append((total[start] + self.alpha * score, start))
            most = max(weight for weight, _ in each)
            total.append(most + math.log(sum(math.exp(weight - most) for weight, _ in each)))
            reached = list(itertools.accumulate(math.exp(weight - total[-1]) for weight, _ in each))
            reached[-1] = 1.0  # whatever rounding has left
            choices.append((reached, [start for _, start in each]))
        return choices

    def _score(self, piece: str) -> float | None:
        return self.scores.get(piece, self.unknown if len(piece) == 1 else None)
