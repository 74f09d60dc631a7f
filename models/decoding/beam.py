"""Beam search bookkeeping: scores come in, choices go out. The arrays span all live beams of one width, so a step costs
the same few operations for one beam as for a hundred. `np.count_nonzero` stands where others have `any`, which takes
four times as long.

A hypothesis' score is log-probability / length**length_penalty, with the end token counted in the length (as in Marian
and fairseq): 0 prefers short hypotheses, 1 compares them per token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.backends.top_k import Continuations
from models.decoding.constrained_beam import BeamConstraints
from models.decoding.options import DecodingOptions, Hypothesis
from models.interface import BeamTable, EndedBeam, Prompt

Ints = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """key: the caller's id of the request. rows: the batch rows it occupies, one per hypothesis."""

    key: int
    prompt: Prompt
    options: DecodingOptions
    constraints: BeamConstraints | None = None
    rows: list[int] = field(default_factory=list)


@lru_cache(maxsize=64)
def length_penalties(longest: int, exponent: float) -> npt.NDArray[np.float64]:
    """The divisor of a log-probability by length, [longest + 1]."""
    return np.array([float(max(length, 1) ** exponent) for length in range(longest + 1)])


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
        self.untracked = np.zeros(room, dtype=bool)  # beams whose shared tokens were not kept up to date
        self.worst = np.zeros(room)  # the score of the last ended one, where `full`
        self.ended_scores, self.ended_counts = np.zeros((room, width)), np.zeros(room, dtype=np.int64)  # of `ended`
        self.divisors = np.zeros((room, longest + 2))  # by length
        self.origins = self.new_tokens = self.common = self.parents[:0, 0]
        self.done = np.zeros(0, dtype=bool)
        self._arrays: tuple[npt.NDArray[np.generic], ...] = (
            *(self.log_probabilities, self.lengths, self.limits, self.reported, self.streamed, self.full),
            *(self.shared, self.shared_with_best, self.untracked, self.worst, self.divisors),
            *(self.ended_scores, self.ended_counts),
        )
        self._constrained = 0  # beams with constraints
        self._table: BeamTable | None = None
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
        self.divisors[place] = length_penalties(self.divisors.shape[1] - 1, options.length_exponent)
        self._constrained += request.constraints is not None

    def remove(self, request: ActiveRequest) -> None:
        """Removes a request's beam; the last beam moves to its index. ValueError if the request has no beam here."""
        place, last = self.requests.index(request), len(self.requests) - 1
        for steps in (self.tokens, self.parents):
            steps[place, : self.lengths[last]] = steps[last, : self.lengths[last]]
        for array in self._arrays:
            array[place] = array[last]
        self._constrained -= request.constraints is not None
        self.requests[place], self.ended[place] = self.requests[last], self.ended[last]
        del self.requests[last], self.ended[last]

    def table(self, suppressed: tuple[int, ...], renormalise: bool) -> BeamTable:
        """The arrays, for a network that advances beams itself; `done` of the table is by place."""
        if self._table is None:
            names = ("tokens", "parents", "log_probabilities", "lengths", "limits", "shared", "full")
            arrays = {
                name: getattr(self, name) for name in (*names, "worst", "ended_scores", "ended_counts", "divisors")
            }
            done = np.zeros(len(self.lengths), dtype=bool)
            self._table = BeamTable(self.eos, suppressed, renormalise, self.forced_end, done=done, **arrays)
        return self._table

    def follow(self, ended: Sequence[EndedBeam]) -> None:
        """Takes over what a network has done with the table. ended: since the last call, in order."""
        assert self._table is not None
        for place, row, length, log_probability, score in ended:
            self._insert(place, EndedHypothesis(score, log_probability, row, length, True))
        self.done = self._table.done[: len(self.requests)]

    @property
    def plain(self) -> bool:
        """Whether no beam has constraints or sends tokens before it is done."""
        return not self._constrained and not np.count_nonzero(self.streamed[: len(self.requests)])

    @property
    def constraints(self) -> list[BeamConstraints | None]:
        """The constraints of each beam; empty if no beam has any."""
        return [request.constraints for request in self.requests] if self._constrained else []

    def advance(self, candidates: Continuations) -> None:
        """Takes the 2k best continuations of each beam, best first, and keeps k of them live. A live hypothesis can end
        in only one way, so at most k of the 2k candidates end and k always remain."""
        before = self.lengths[: len(self.requests)].copy()
        cut = self._cut(before) if self.forced_end else set[int]()
        if self.eos is not None and np.count_nonzero(ends := candidates.tokens == self.eos):
            found = ends[:, : self.width].nonzero()
            self._end_found(found[0], candidates.parents[found], candidates.log_probabilities[found], cut)
            order = ends.argsort(axis=1, kind="stable")[:, : self.width]
            beams = self._places[: len(order), None]
            candidates = Continuations(*(column[beams, order] for column in candidates))
        self._continue(candidates, before)
        self._update_shared(before + 1)

    def advance_chosen(self, candidates: Continuations) -> None:
        """As `advance`, after which the caller reorders no caches by `common`. candidates: the first k of each beam
        continue; of the others, those end that are an end token and not -inf."""
        before, width = self.lengths[: len(self.requests)].copy(), self.width
        cut = self._cut(before) if self.forced_end else set[int]()
        values, parents, tokens = candidates
        if self.eos is not None:
            found = (tokens == self.eos).ravel().nonzero()[0]  # none is among the first k
            if found.size:
                self._end_found(found // tokens.shape[1], parents.take(found), values.take(found), cut)
        self._continue(Continuations(values[:, :width], parents[:, :width], tokens[:, :width]), before)
        if np.count_nonzero(self.streamed[: len(before)]):
            self._update_shared(before + 1)
        else:
            self.untracked[: len(before)] = True

    def _continue(self, candidates: Continuations, before: Ints) -> None:
        """The candidates [G, k] are the live hypotheses now. before [G]: lengths."""
        count = len(before)
        self.origins, self.new_tokens = candidates.parents[:, : self.width], candidates.tokens[:, : self.width]
        beams, after = self._places[:count], before + 1
        self.tokens[beams, before], self.parents[beams, before] = self.new_tokens, self.origins
        dead = candidates.log_probabilities[:, 0] == -np.inf
        if np.count_nonzero(dead):  # no hypothesis can continue: if none has ended, all end as they are
            for place in dead.nonzero()[0].tolist():
                if not self.ended[place]:
                    self._end_all(place, int(before[place]))
        self.log_probabilities[:count] = candidates.log_probabilities[:, : self.width]
        self.lengths[:count] = after
        self.done = (after >= self.limits[:count]) | dead
        if np.count_nonzero(self.full[:count]):
            self.done |= self.full[:count] & self._settled(count)
        for place, constraints in enumerate(self.constraints):
            if constraints is not None:
                constraints.follow(self.origins[place], self.new_tokens[place])

    def _cut(self, before: Ints) -> set[int]:
        """Ends the hypotheses of beams with room for the end token only; returns these beams. before [G]: lengths."""
        cut = set((before + 1 >= self.limits[: len(before)]).nonzero()[0].tolist())
        for place in cut:
            self._end_all(place, int(before[place]))
        return cut

    def _end_found(self, places: Ints, parents: Ints, values: npt.NDArray[np.float32], cut: set[int]) -> None:
        """Ends candidates [N] by the end token, except in `cut` beams. values: their log-probabilities."""
        lengths = self.lengths[places]
        scores = values / self._divisor(places, lengths + 1)
        found = (places, parents, lengths, values, scores)
        for place, parent, length, value, score in zip(*(column.tolist() for column in found), strict=True):
            if place not in cut and value != -np.inf:
                self._insert(place, EndedHypothesis(score, value, parent, length, True))

    def _update_shared(self, after: Ints) -> None:
        """Updates the shared token counts: all tokens for children of one parent, else as many as their parents."""
        count, width = self.origins.shape
        whence = self._first[:count] + self.origins
        parents = whence * width
        self.common = self.shared.take(parents + self._columns)
        if np.count_nonzero(self.untracked[:count]):
            self.common[self.untracked[:count]] = 0
        shared = self.shared.take(parents[:, :, None] + self.origins[:, None, :])
        shared.reshape(count, width * width)[:, :: width + 1] = after[:, None]
        self.shared[:count] = shared
        if np.count_nonzero(self.streamed[:count]):
            self.shared_with_best[:count] = self.shared_with_best.take(whence)

    @property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Which live hypotheses of unfinished beams have a parent at another index, [G, k]."""
        moved: npt.NDArray[np.bool_] = self.origins != self._columns
        if np.count_nonzero(self.done):
            moved[self.done] = False
        return moved

    def _end(self, place: int, row: int, length: int, log_probability: float) -> None:
        """Ends hypothesis `row` at `length` tokens, without an end token of its own."""
        if log_probability == -np.inf:
            return
        constraints = self.requests[place].constraints
        unmet = 0 if constraints is None else constraints.unmet(row)
        score = log_probability / float(self.divisors[place, length + self.forced_end])
        self._insert(place, EndedHypothesis(score, log_probability, row, length, False, unmet))

    def _insert(self, place: int, hypothesis: EndedHypothesis) -> None:
        """Inserts an ended hypothesis in order: fewer missing terms first, then the better score, then the earlier
        end."""
        ended, score, unmet = self.ended[place], hypothesis.score, hypothesis.unmet
        at = len(ended)
        while at and (ended[at - 1].score < score if ended[at - 1].unmet == unmet else ended[at - 1].unmet > unmet):
            at -= 1
        if at == self.width:
            return
        ended.insert(at, hypothesis)
        if at == 0:
            self.shared_with_best[place] = self.shared[place, hypothesis.row]
        del ended[self.width :]
        self.ended_counts[place] = len(ended)
        self.ended_scores[place, : len(ended)] = [each.score for each in ended]
        if len(ended) == self.width:
            self.full[place], self.worst[place] = True, ended[-1].score

    def _end_all(self, place: int, length: int) -> None:
        for row, log_probability in enumerate(self.log_probabilities[place].tolist()):
            self._end(place, row, length, log_probability)

    def _settled(self, count: int) -> npt.NDArray[np.bool_]:
        """For full beams: whether the best live hypothesis, scored at its present length, is no better than the worst
        of k ended ones: the stopping rule of Hugging Face's `early_stopping=False`."""
        best = self.log_probabilities[:count, 0] / self._divisor(self._places[:count], self.lengths[:count])
        settled: npt.NDArray[np.bool_] = best <= self.worst[:count]
        return settled

    def _divisor(self, places: Ints, lengths: Ints) -> npt.NDArray[np.float64]:
        return self.divisors.take(places * self.divisors.shape[1] + lengths)

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
