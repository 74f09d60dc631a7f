"""Words cut into pieces at random, so that a network sees more than one cut of each: BPE-dropout (Provilkov et al.
2020, arXiv 1910.13267) and samples of a unigram model (Kudo 2018, arXiv 1804.10959).

SentencePiece can do both, but since 0.2.3 its numbers repeat within one process alone, whatever the seed: a resumed
run would see other cuts, and so would each process of a shared one.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Protocol

UNLIKELY = 10.0  # by so much an unknown character scores less than the least likely piece, as in SentencePiece


class Cutter(Protocol):
    def cut(self, word: str, generator: random.Random) -> Sequence[str]: ...


class DroppedMerges:
    """Byte-pair merges, the best first and of equals the leftmost; each that comes up is left out with probability
    `share`."""

    def __init__(self, scores: Mapping[str, float], share: float) -> None:
        self.scores, self.share = scores, share
        self._whole: dict[str, list[str]] = {}  # words with every merge done

    def cut(self, word: str, generator: random.Random) -> Sequence[str]:
        if word not in self._whole:
            self._whole[word] = self._merged(word, len(word), None)
        whole = self._whole[word]
        merges, done, drawn, reached = len(word) - len(whole), 0, generator.random(), 1.0 - self.share
        while done < merges and drawn < reached:  # drawn < (1 - share)^n: the first n are done
            done, reached = done + 1, reached * (1.0 - self.share)
        return whole if done == merges else self._merged(word, done, generator)

    def _merged(self, word: str, done: int, generator: random.Random | None) -> list[str]:
        """The first `done` merges are done, the next one is not, and the generator decides about the others."""
        parts = list(word)
        ranks = [self._rank(a, b) for a, b in itertools.pairwise(parts)]
        while ranks and (best := max(ranks)) > -math.inf:
            at = ranks.index(best)
            done -= 1
            if done < 0 and generator and (done == -1 or generator.random() < self.share):
                ranks[at] = -math.inf
                continue
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del ranks[at]
            if at > 0:
                ranks[at - 1] = self._rank(parts[at - 1], parts[at])
            if at < len(ranks):
                ranks[at] = self._rank(parts[at], parts[at + 1])
        return parts

    def _rank(self, left: str, right: str) -> float:
        return self.scores.get(left + right, -math.inf)


class LikelyCuts:
    """Cuts of a unigram model, each as likely as the product of its pieces' probabilities to the power `alpha`."""

    def __init__(self, scores: Mapping[str, float], alpha: float) -> None:
        self.scores, self.alpha = scores, alpha
        self.longest = max(map(len, scores))
        self.unknown = min(scores.values()) - UNLIKELY
        self._ends: dict[str, list[list[tuple[float, int]]]] = {}

    def cut(self, word: str, generator: random.Random) -> Sequence[str]:
        if word not in self._ends:
            self._ends[word] = self._choices(word)
        parts, end = list[str](), len(word)
        while end:
            drawn = generator.random()
            start = next(start for share, start in self._ends[word][end] if drawn < share)
            parts.append(word[start:end])
            end = start
        return parts[::-1]

    def _choices(self, word: str) -> list[list[tuple[float, int]]]:
        """For each place in the word, where the piece that ends there may start: (cumulated probability, place)."""
        total, choices = [0.0], list[list[tuple[float, int]]]([[]])
        for end in range(1, len(word) + 1):
            each = []
            for start in range(max(0, end - self.longest), end):
                score = self._score(word[start:end])
                if score is not None:
                    each.append((total[start] + self.alpha * score, start))
            most = max(weight for weight, _ in each)
            total.append(most + math.log(sum(math.exp(weight - most) for weight, _ in each)))
            reached, these = 0.0, list[tuple[float, int]]()
            for weight, start in each:
                reached += math.exp(weight - total[-1])
                these.append((reached, start))
            these[-1] = 1.0, these[-1][1]  # whatever rounding has left
            choices.append(these)
        return choices

    def _score(self, piece: str) -> float | None:
        return self.scores.get(piece, self.unknown if len(piece) == 1 else None)
