"""Beam search: bookkeeping only, scores come in and choices go out. Arrays over all live beams of one width, so that
a step costs the same few operations whether one beam is live or a hundred.

A hypothesis' score is its log-probability divided by length**length_penalty, the length counting its end token, as
Marian and fairseq define it; 0 prefers short hypotheses, 1 compares them per token."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from models.backends.top_k import Continuations

if TYPE_CHECKING:
    from models.decoding.constrained_beam import BeamConstraints
    from models.decoding.options import DecodingOptions

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """tokens: without the prefix and without the end token. log_probability: nats, the end token included; NaN where
    it was not asked for. finished: False if the limit came before the end token. token_log_probabilities: of each of
    the tokens, where these were asked for; likeliest: at the place of each, the likeliest tokens and their log-
    probabilities, best first, where those were. unmet: how many of the required terms are not there; never any of one
    that is finished."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool
    token_log_probabilities: tuple[float, ...] | None = None
    likeliest: tuple[tuple[tuple[int, float], ...], ...] | None = None
    unmet: int = 0


class EndedHypothesis(NamedTuple):
    """A hypothesis that is live no more: the `length` tokens of what was hypothesis `row` when it had so many. They are
    looked up only if it is among the results."""

    score: float
    log_probability: float
    row: int
    length: int
    finished: bool
    unmet: int = 0  # required terms that are not there


class Beams:
    """G beams of k live hypotheses each. Beam g is in place g of every array, and its key is keys[g]; where one leaves,
    the last takes its place. There is room for `room` beams of `longest` tokens.

    After `advance`: came [G, k] says which hypothesis before it live hypothesis i continues, and last [G, k] with what;
    common [G, k], how many tokens that one has in common with the one before it in place i; done [G], which beams have
    come to an end.
    """

    def __init__(self, width: int, eos: int | None, room: int, longest: int, *, forced_end: bool = False) -> None:
        self.width, self.eos, self.forced_end = width, eos, forced_end
        self.keys: list[Hashable] = []
        self.ended: list[
            list[EndedHypothesis]
        ] = []  # of each beam the best k, best first; whatever lacks a term comes last
        self.penalties: list[float] = []
        self.bounds: list[BeamConstraints | None] = []  # what each may not, or must write
        self.any_bound = False
        self.tokens, self.parents = (np.zeros((room, longest, width), dtype=np.int64) for _ in range(2))  # by step
        self.log_probabilities = np.zeros((room, width), dtype=np.float32)
        self.lengths, self.limits, self.told = (np.zeros(room, dtype=np.int64) for _ in range(3))
        self.streamed, self.full = np.zeros(room, dtype=bool), np.zeros(room, dtype=bool)
        self.shared = np.zeros((room, width, width), dtype=np.int64)  # tokens that two live hypotheses have in common
        self.shared_with_best = np.zeros((room, width), dtype=np.int64)  # and each with the best that ended
        self.came = self.last = self.common = self.parents[:0, 0]
        self.done = np.zeros(0, dtype=bool)
        self._places, self._columns = np.arange(room), np.arange(width)
        self._first = self._places[:, None] * width  # in an array [G, k], counted through

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: Hashable, options: DecodingOptions, bound: BeamConstraints | None = None) -> None:
        """A beam that has written nothing yet, in the last place. The caller sees to it that there is room."""
        place = len(self)
        self.bounds.append(bound)
        self.any_bound = self.any_bound or bound is not None
        self.keys.append(key)
        self.ended.append([])
        self.penalties.append(options.length_exponent)
        # all k rows start equal, so only the first may branch on the first step
        self.log_probabilities[place] = -np.inf
        self.log_probabilities[place, 0] = 0.0
        self.lengths[place], self.limits[place], self.told[place] = 0, options.token_limit, 0
        self.streamed[place], self.full[place] = options.streamed, False
        self.shared[place], self.shared_with_best[place] = 0, 0

    def remove(self, key: Hashable) -> None:
        """ValueError if there is no such beam. The last beam takes its place."""
        place, last = self.keys.index(key), len(self) - 1
        for array in (self.tokens, self.parents):
            array[place, : self.lengths[last]] = array[last, : self.lengths[last]]
        for each in (self.log_probabilities, self.lengths, self.limits, self.told, self.streamed, self.full):
            each[place] = each[last]
        self.shared[place], self.shared_with_best[place] = self.shared[last], self.shared_with_best[last]
        self.keys[place], self.ended[place] = self.keys[last], self.ended[last]
        self.penalties[place], self.bounds[place] = self.penalties[last], self.bounds[last]
        del self.keys[last], self.ended[last], self.penalties[last], self.bounds[last]
        self.any_bound = any(bound is not None for bound in self.bounds)

    def advance(self, found: Continuations) -> None:
        """Take the 2k best continuations of each beam, best first, and keep k of them live.

        Of 2k candidates at most k end, for each live hypothesis ends in one way only, so k always remain.
        """
        count = len(self)
        before = self.lengths[:count].copy()
        cut = self._cut(before) if self.forced_end else set[int]()
        if self.eos is not None and (ends := found.tokens == self.eos).any():
            found = self._part(found, ends, cut)
        self.came, self.last = found.parents[:, : self.width], found.tokens[:, : self.width]
        beams, after = self._places[:count], before + 1
        self.tokens[beams, before], self.parents[beams, before] = self.last, self.came
        dead = found.log_probabilities[:, 0] == -np.inf
        if dead.any():
            self._bury(dead, before)
        self.log_probabilities[:count] = found.log_probabilities[:, : self.width]
        self.lengths[:count] = after
        self._relate(after)
        self.done = (after >= self.limits[:count]) | dead
        for place in self.full[:count].nonzero()[0].tolist():
            self.done[place] |= self._settled(place)
        if self.any_bound:
            for bound, came, last in zip(self.bounds, self.came, self.last, strict=True):
                if bound is not None:
                    bound.follow(came, last)

    def _cut(self, before: Ints) -> set[int]:
        """The beams, of these lengths, to whose limit the end token alone is missing: their hypotheses end here."""
        cut = set((before + 1 >= self.limits[: len(before)]).nonzero()[0].tolist())
        for place in cut:
            for row, log_probability in enumerate(self.log_probabilities[place].tolist()):
                self._end(place, row, int(before[place]), log_probability, finished=False)
        return cut

    def _bury(self, dead: npt.NDArray[np.bool_], before: Ints) -> None:
        """Beams, of these lengths, none of whose hypotheses may go on: where none has ended, they end as they are."""
        for place in dead.nonzero()[0].tolist():
            if not self.ended[place]:
                for row, log_probability in enumerate(self.log_probabilities[place].tolist()):
                    self._end(place, row, int(before[place]), log_probability, finished=False)

    def _part(self, found: Continuations, ends: npt.NDArray[np.bool_], cut: set[int]) -> Continuations:
        """Those that go on; of those that end, which are marked, the ones among the k best are kept too, but where a
        beam was cut already."""
        for place, rank in np.argwhere(ends[:, : self.width]).tolist():
            parent, length = int(found.parents[place, rank]), int(self.lengths[place])
            if place not in cut:
                self._end(place, parent, length, float(found.log_probabilities[place, rank]), finished=True)
        order = ends.argsort(axis=1, kind="stable")[:, : self.width]
        beams = self._places[: len(order), None]
        values, parents, tokens = found
        return Continuations(values[beams, order], parents[beams, order], tokens[beams, order])

    def _relate(self, after: Ints) -> None:
        """Who has how much in common now: children of one parent all of it, others what their parents had."""
        count, width = self.came.shape
        whence = self._first[:count] + self.came
        parents = whence * width
        self.common = self.shared.take(parents + self._columns)
        shared = self.shared.take(parents[:, :, None] + self.came[:, None, :])
        shared.reshape(count, width * width)[:, :: width + 1] = after[:, None]
        self.shared[:count] = shared
        if self.streamed[:count].any():
            self.shared_with_best[:count] = self.shared_with_best.take(whence)

    @property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Which live hypotheses of beams that go on continue one that was in another place, [G, k]."""
        moved: npt.NDArray[np.bool_] = self.came != self._columns
        if self.done.any():
            moved[self.done] = False
        return moved

    def _score(self, place: int, log_probability: float, length: int) -> float:
        return log_probability / float(max(length, 1) ** self.penalties[place])

    def _end(self, place: int, row: int, length: int, log_probability: float, *, finished: bool) -> None:
        """Of the beam's hypothesis `row`, which has `length` tokens; its end token counts as one more."""
        if log_probability == -np.inf:
            return
        counted, ended = length + (finished or self.forced_end), self.ended[place]
        best, bound = ended[:1], self.bounds[place]
        unmet = 0 if bound is None or finished else bound.unmet(row)
        score = self._score(place, log_probability, counted)
        ended.append(EndedHypothesis(score, log_probability, row, length, finished, unmet))
        ended.sort(key=lambda each: (each.unmet, -each.score))
        del ended[self.width :]
        if ended[:1] != best:
            self.shared_with_best[place] = self.shared[place, row]
        self.full[place] = len(ended) == self.width

    def _settled(self, place: int) -> bool:
        """Of a beam of which enough have ended: the best live one, scored at its present length, is no better than
        the worst of these: the stopping rule of Hugging Face's `early_stopping=False`."""
        best = float(self.log_probabilities[place, 0])
        return self._score(place, best, int(self.lengths[place])) <= self.ended[place][-1].score

    def results(self, place: int, count: int) -> list[Hypothesis]:
        """The best `count`, best first. Those cut by the limit stand in only where nothing ended; of these the ones
        with the fewest terms missing."""
        if not self.ended[place]:
            for row, log_probability in enumerate(self.log_probabilities[place].tolist()):
                self._end(place, row, int(self.lengths[place]), log_probability, finished=False)
        return [
            Hypothesis(
                self.written(place, each.row, each.length),
                *(each.log_probability, each.score, each.finished),
                unmet=each.unmet,
            )
            for each in self.ended[place][:count]
        ]

    def written(self, place: int, row: int, length: int, since: int = 0) -> tuple[int, ...]:
        """The tokens of what was hypothesis `row` when it had `length` of them, from place `since` on."""
        tokens, parents = (array[place, since:length].tolist() for array in (self.tokens, self.parents))
        found: list[int] = []
        for step in range(length - since - 1, -1, -1):
            found.append(tokens[step][row])
            row = parents[step][row]
        return tuple(reversed(found))

    def agreed(self) -> Ints:
        """How many tokens all live hypotheses of each beam and its best that ended have in common: those will stay."""
        count = len(self)
        shared = self.shared[:count, 0].min(axis=1)
        with_best = np.minimum(shared, self.shared_with_best[:count].min(axis=1))
        agreed: Ints = np.where([bool(ended) for ended in self.ended], with_best, shared)
        return agreed

    def news(self) -> Iterator[tuple[Hashable, int]]:
        """The tokens on which streamed beams have come to agree since they were asked last."""
        count = len(self)
        if not self.streamed[:count].any():
            return
        agreed = self.agreed()
        for place in (self.streamed[:count] & (agreed > self.told[:count])).nonzero()[0].tolist():
            told, now = int(self.told[place]), int(agreed[place])
            for token in self.written(place, 0, int(self.lengths[place]), told)[: now - told]:
                yield self.keys[place], token
            self.told[place] = now
