"""Beam search bookkeeping: scores come in, choices go out. The arrays span all live beams of one width, so a step costs
the same few operations for one beam as for a hundred.

A hypothesis' score is log-probability / length**length_penalty, with the end token counted in the length (as in Marian
and fairseq): 0 prefers short hypotheses, 1 compares them per token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.backends.top_k import Continuations
from models.decoding.active_request import ActiveRequest
from models.decoding.constrained_beam import BeamConstraints
from models.decoding.options import Hypothesis

Ints = npt.NDArray[np.int64]


class EndedHypothesis(NamedTuple):
    """Hypothesis `row` as it was at `length` tokens. Its tokens are read back only if it is among the results. unmet:
    number of required terms that are missing."""

    score: float
    log_probability: float
    row: int
    length: int
    finished: bool
    unmet: int = 0


class Beams:
    """G beams of k live hypotheses. Beam g serves requests[g] and is at index g of every array; the last beam fills the
    place of a removed one. Room for `room` beams of `longest` tokens.

    rows [G, k]: batch rows of the hypotheses;  prefix_lengths [G].
    After `advance`, for live hypothesis i: origins [G, k], its parent hypothesis;  new_tokens [G, k];  common [G, k],
    how many tokens the parent shares with the previous hypothesis i;  done [G], beams that have finished."""

    def __init__(self, width: int, eos: int | None, room: int, longest: int, *, forced_end: bool = False) -> None:
        self.width, self.eos, self.forced_end = width, eos, forced_end
        self.requests: list[ActiveRequest] = []
        self.ended: list[list[EndedHypothesis]] = []  # per beam the best k, best first; complete ones come first
        self.rows = self.prefix_lengths = np.zeros(0, dtype=np.int64)
        self.tokens = np.zeros((room, longest, width), dtype=np.int64)  # by step
        self.parents = np.zeros((room, longest, width), dtype=np.int64)
        self.log_probabilities = np.zeros((room, width), dtype=np.float32)
        self.lengths = np.zeros(room, dtype=np.int64)
        self.limits = np.zeros(room, dtype=np.int64)
        self.reported = np.zeros(room, dtype=np.int64)  # tokens that `agreed_tokens` has yielded
        self.streamed, self.full = np.zeros(room, dtype=bool), np.zeros(room, dtype=bool)
        self.shared = np.zeros((room, width, width), dtype=np.int64)  # tokens that two live hypotheses have in common
        self.shared_with_best = np.zeros((room, width), dtype=np.int64)  # tokens in common with the best ended one
        self.origins = self.new_tokens = self.common = self.parents[:0, 0]
        self.done = np.zeros(0, dtype=bool)
        self._arrays: tuple[npt.NDArray[np.generic], ...] = (
            *(self.log_probabilities, self.lengths, self.limits, self.reported, self.streamed, self.full),
            *(self.shared, self.shared_with_best),
        )
        self._places, self._columns = np.arange(room), np.arange(width)
        self._first = self._places[:, None] * width  # flat index of each beam's first hypothesis in a [G, k] array

    def add(self, request: ActiveRequest) -> None:
        """Appends an empty beam. The caller makes sure that there is room."""
        place, options = len(self.requests), request.options
        self.requests.append(request)
        self.ended.append([])
        for array in self._arrays:
            array[place] = 0
        # all k rows start equal, so only the first may branch on the first step
        self.log_probabilities[place, 1:] = -np.inf
        self.limits[place], self.streamed[place] = options.token_limit, options.streamed

    def remove(self, request: ActiveRequest) -> None:
        """The last beam takes its place. ValueError if the request has no beam here."""
        place, last = self.requests.index(request), len(self.requests) - 1
        for steps in (self.tokens, self.parents):
            steps[place, : self.lengths[last]] = steps[last, : self.lengths[last]]
        for array in self._arrays:
            array[place] = array[last]
        self.requests[place], self.ended[place] = self.requests[last], self.ended[last]
        del self.requests[last], self.ended[last]

    @property
    def constraints(self) -> list[BeamConstraints | None]:
        """The constraints of each beam; empty if no beam has any."""
        constraints = [request.constraints for request in self.requests]
        return constraints if any(constraints) else []

    def advance(self, candidates: Continuations) -> None:
        """Takes the 2k best continuations of each beam, best first, and keeps k of them live. A live hypothesis can end
        in only one way, so at most k of the 2k candidates end and k always remain."""
        count = len(self.requests)
        before = self.lengths[:count].copy()
        cut = self._cut(before) if self.forced_end else set[int]()
        if self.eos is not None and (ends := candidates.tokens == self.eos).any():
            candidates = self._split_off_ended(candidates, ends, cut)
        self.origins, self.new_tokens = candidates.parents[:, : self.width], candidates.tokens[:, : self.width]
        beams, after = self._places[:count], before + 1
        self.tokens[beams, before], self.parents[beams, before] = self.new_tokens, self.origins
        dead = candidates.log_probabilities[:, 0] == -np.inf
        if dead.any():  # no hypothesis can continue: if none has ended, all end as they are
            for place in dead.nonzero()[0].tolist():
                if not self.ended[place]:
                    self._end_all(place, int(before[place]))
        self.log_probabilities[:count] = candidates.log_probabilities[:, : self.width]
        self.lengths[:count] = after
        self._update_shared(after)
        self.done = (after >= self.limits[:count]) | dead
        for place in self.full[:count].nonzero()[0].tolist():
            self.done[place] |= self._settled(place)
        for place, constraints in enumerate(self.constraints):
            if constraints is not None:
                constraints.follow(self.origins[place], self.new_tokens[place])

    def _cut(self, before: Ints) -> set[int]:
        """Ends the hypotheses of beams with room for the end token only; returns these beams. before [G]: lengths."""
        cut = set((before + 1 >= self.limits[: len(before)]).nonzero()[0].tolist())
        for place in cut:
            self._end_all(place, int(before[place]))
        return cut

    def _split_off_ended(self, candidates: Continuations, ends: npt.NDArray[np.bool_], cut: set[int]) -> Continuations:
        """Records ended candidates (`ends`) that are among the k best, except in `cut` beams; returns the others."""
        for place, rank in np.argwhere(ends[:, : self.width]).tolist():
            if place not in cut:
                log_probability = float(candidates.log_probabilities[place, rank])
                parent, length = int(candidates.parents[place, rank]), int(self.lengths[place])
                self._end(place, parent, length, log_probability, finished=True)
        order = ends.argsort(axis=1, kind="stable")[:, : self.width]
        beams = self._places[: len(order), None]
        values, parents, tokens = candidates
        return Continuations(values[beams, order], parents[beams, order], tokens[beams, order])

    def _update_shared(self, after: Ints) -> None:
        """Updates the shared token counts: all tokens for children of one parent, else as many as their parents."""
        count, width = self.origins.shape
        whence = self._first[:count] + self.origins
        parents = whence * width
        self.common = self.shared.take(parents + self._columns)
        shared = self.shared.take(parents[:, :, None] + self.origins[:, None, :])
        shared.reshape(count, width * width)[:, :: width + 1] = after[:, None]
        self.shared[:count] = shared
        if self.streamed[:count].any():
            self.shared_with_best[:count] = self.shared_with_best.take(whence)

    @property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Which live hypotheses of unfinished beams have a parent at another index, [G, k]."""
        moved: npt.NDArray[np.bool_] = self.origins != self._columns
        if self.done.any():
            moved[self.done] = False
        return moved

    def _score(self, place: int, log_probability: float, length: int) -> float:
        return log_probability / float(max(length, 1) ** self.requests[place].options.length_exponent)

    def _end(self, place: int, row: int, length: int, log_probability: float, *, finished: bool) -> None:
        """Ends hypothesis `row` at `length` tokens, to which a final end token adds one."""
        if log_probability == -np.inf:
            return
        ended, constraints = self.ended[place], self.requests[place].constraints
        best = ended[:1]
        unmet = 0 if constraints is None or finished else constraints.unmet(row)
        score = self._score(place, log_probability, length + (finished or self.forced_end))
        ended.append(EndedHypothesis(score, log_probability, row, length, finished, unmet))
        ended.sort(key=lambda hypothesis: (hypothesis.unmet, -hypothesis.score))
        del ended[self.width :]
        if ended[:1] != best:
            self.shared_with_best[place] = self.shared[place, row]
        self.full[place] = len(ended) == self.width

    def _end_all(self, place: int, length: int) -> None:
        for row, log_probability in enumerate(self.log_probabilities[place].tolist()):
            self._end(place, row, length, log_probability, finished=False)

    def _settled(self, place: int) -> bool:
        """Whether the best live hypothesis, scored at its present length, is no better than the worst of k ended ones:
        the stopping rule of Hugging Face's `early_stopping=False`."""
        best = float(self.log_probabilities[place, 0])
        return self._score(place, best, int(self.lengths[place])) <= self.ended[place][-1].score

    def results(self, place: int, count: int) -> list[Hypothesis]:
        """The `count` best hypotheses, best first. Hypotheses cut by the limit count only if none ended; among them,
        those with the fewest missing terms come first."""
        if not self.ended[place]:
            self._end_all(place, int(self.lengths[place]))
        return [
            Hypothesis(self.written(place, e.row, e.length), e.log_probability, e.score, e.finished, unmet=e.unmet)
            for e in self.ended[place][:count]
        ]

    def written(self, place: int, row: int, length: int, since: int = 0) -> tuple[int, ...]:
        """The tokens from `since` on of hypothesis `row` as it was at `length` tokens."""
        tokens, parents = self.tokens[place, since:length].tolist(), self.parents[place, since:length].tolist()
        backwards: list[int] = []
        for step in range(length - since - 1, -1, -1):
            backwards.append(tokens[step][row])
            row = parents[step][row]
        return tuple(reversed(backwards))

    def agreed(self) -> Ints:
        """Per beam, how many leading tokens all live hypotheses and the best ended one share: these are final."""
        count = len(self.requests)
        shared = self.shared[:count, 0].min(axis=1)
        with_best = np.minimum(shared, self.shared_with_best[:count].min(axis=1))
        agreed: Ints = np.where([bool(ended) for ended in self.ended], with_best, shared)
        return agreed

    def agreed_tokens(self) -> Iterator[tuple[int, int]]:
        """The tokens that have become final in streamed beams since the last call, as (request key, token)."""
        agreed, count = self.agreed(), len(self.requests)
        for place in (self.streamed[:count] & (agreed > self.reported[:count])).nonzero()[0].tolist():
            since, now = int(self.reported[place]), int(agreed[place])
            for token in self.written(place, 0, int(self.lengths[place]), since)[: now - since]:
                yield self.requests[place].key, token
            self.reported[place] = now
