"""Beam search under bounds: runs that may not come again, and terms that must come.

Terms: dynamic beam allocation (Post and Vilar 2018, arXiv 1804.06609). Candidates are, beside the likeliest, all tokens
that bring a term further; those that need as many tokens as each other to hold all terms make a bank, and the banks
share the beam equally. So each number of tokens is there at its best price, and the hypothesis that wins is the best of
those that hold everything. Only these may end; and whoever could not write what is left within the limit is dropped
while others can.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.likeliest import Continuations, continuations, largest, log_total, top
from models.options import DecodingOptions
from models.repeats import Places, repeated, together
from models.terms import Terms

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class Candidate(NamedTuple):
    nats: float
    parent: int
    token: int


class Bound:
    """Of one beam. A term counts as there if the prefix holds it."""

    def __init__(self, options: DecodingOptions, prefix: Sequence[int], eos: int | None, terms: Terms | None) -> None:
        self.size, self.eos, self.terms, self.limit = options.no_repeat_ngram_size, eos, terms, options.max_new_tokens
        self.states = [terms.read(prefix) if terms else 0] * options.beam  # of each hypothesis
        self.written = np.zeros((options.beam, 0), dtype=np.int64)
        self._padding = int(eos == 0)  # a token that ends nothing
        self._end = np.array([] if eos is None else [eos], dtype=np.int64)

    def follow(self, came: Ints, last: Ints) -> None:
        """Hypothesis i continues came[i] with last[i]."""
        self.written = np.concatenate([self.written[came], last[:, None]], axis=1)
        if self.terms is not None:
            pairs = zip(came.tolist(), last.tolist(), strict=True)
            self.states = [self.terms.after(self.states[parent], token) for parent, token in pairs]

    def unmet(self, row: int) -> int:
        return self.terms.states[self.states[row]].unmet if self.terms is not None else 0

    def banned(self) -> Places:
        """By hypothesis."""
        return repeated(self.written, self.size) if self.size else repeated(self.written[:, :0], 1)

    def useful(self, vocabulary: int) -> Places:
        """What brings a term further, by hypothesis; where all are there, the end."""
        if self.terms is None:
            return Places(self._end[:0], self._end[:0])
        states = [self.terms.states[state] for state in self.states]
        found = [state.useful if state.left else self._end for state in states]
        rows, tokens = np.repeat(np.arange(len(found)), [len(each) for each in found]), np.concatenate(found)
        known = tokens < vocabulary
        return Places(rows[known], tokens[known])

    def chosen(self, candidates: list[Candidate], count: int) -> list[Candidate]:
        """count candidates, as `Beams.advance` takes them: first those that end and hold all terms (if they are among
        the best of those that do), then as many as may stay live, each best first."""
        width, terms = len(self.states), self.terms
        if terms is None:
            found = sorted(candidates, key=itemgetter(0), reverse=True)[:count]
        else:
            last = self.written.shape[1] + 1 == self.limit  # and behind it nothing can end any more
            complete = [each for each in candidates if each.token == self.eos or not last]
            complete = [each for each in complete if terms.states[self._after(terms, each)].left == 0]
            complete = sorted(complete, key=itemgetter(0), reverse=True)[: min(width, count - width)]
            found = [each for each in complete if each.token == self.eos]
            found += self._shared([each for each in candidates if each.token != self.eos], terms, width)
        return found + [Candidate(-math.inf, 0, self._padding)] * (count - len(found))

    def _after(self, terms: Terms, candidate: Candidate) -> int:
        state = self.states[candidate.parent]
        return state if candidate.token == self.eos else terms.after(state, candidate.token)

    def _shared(self, candidates: list[Candidate], terms: Terms, width: int) -> list[Candidate]:
        """The best `width`, in equal shares of the banks; what one bank does not use, the others have. The first is one
        that is sure to come to an end within the limit, of the furthest, so that one always does."""
        room = self.limit - self.written.shape[1] - 1 - (self.eos is not None)
        known = [(each, terms.states[self._after(terms, each)]) for each in candidates]
        known.sort(key=lambda pair: -pair[0].nats)
        fitting = [pair for pair in known if pair[1].left <= room] or known
        if not fitting:
            return []
        surest = min(fitting, key=lambda pair: (pair[1].safe > room, pair[1].left))
        used, ranked = Counter[int](), list[tuple[int, float, Candidate]]()
        for each, state in [surest, *(pair for pair in fitting if pair is not surest)]:
            ranked.append((used[state.left], -each.nats, each))
            used[state.left] += 1
        taken = [each for _, _, each in (ranked[0], *sorted(ranked[1:], key=itemgetter(0, 1)))]
        return sorted(taken[:width], key=itemgetter(0), reverse=True)


def bound_continuations(logits: Tensor, rows: Ints, so_far: Floats, bounds: Sequence[Bound | None]) -> Continuations:
    """As `models.likeliest.continuations`, where some beams are bound."""
    width, size = rows.shape[1], logits.size(1)
    count = min(2 * width, width * min(2 * width, size))
    bound = np.array([each is not None for each in bounds])
    found = _bound(logits, rows[bound], so_far[bound], [each for each in bounds if each is not None], count)
    if bound.all():
        return found
    # after them, for it uses the logits up
    free = continuations(logits, np.ascontiguousarray(rows[~bound]), so_far[~bound])
    order = np.argsort(np.concatenate([bound.nonzero()[0], (~bound).nonzero()[0]]))
    values, parents, tokens = (np.concatenate(pair)[order] for pair in zip(found, free, strict=True))
    return Continuations(values, parents, tokens)


def _bound(logits: Tensor, rows: Ints, so_far: Floats, bounds: Sequence[Bound], count: int) -> Continuations:
    width = rows.shape[1]
    of = logits[torch.from_numpy(rows.ravel()).to(logits.device)]
    totals = log_total(of, largest(of), keep=True)[:, None]
    banned, useful = (
        together([Places(each.rows + place * width, each.tokens) for place, each in enumerate(found)])
        for found in ([each.banned() for each in bounds], [each.useful(of.size(1)) for each in bounds])
    )
    if len(banned.rows):
        of[banned.on(of.device)] = -torch.inf
    values, tokens = top(of, min(2 * width, of.size(1)))
    extra = (of[useful.on(of.device)] - totals[useful.on(of.device)[0], 0]).double()
    flat = torch.cat([(values - totals).double().ravel(), tokens.double().ravel(), extra]).cpu().numpy()
    places = values.numel()
    parents = np.concatenate([np.repeat(np.arange(len(of)), values.size(1)), useful.rows])
    ids = np.concatenate([flat[places : 2 * places].astype(np.int64), useful.tokens])
    nats = (np.concatenate([flat[:places], flat[2 * places :]]) + so_far.ravel()[parents]).astype(np.float32)
    candidates: list[dict[tuple[int, int], Candidate]] = [{} for _ in bounds]
    for parent, token, each in zip(parents.tolist(), ids.tolist(), nats.tolist(), strict=True):
        if each > -math.inf:
            beam, row = divmod(parent, width)
            candidates[beam][row, token] = Candidate(each, row, token)
    taken = [bound.chosen(list(found.values()), count) for bound, found in zip(bounds, candidates, strict=True)]
    columns = np.array(taken)
    return Continuations(
        columns[:, :, 0].astype(np.float32), columns[:, :, 1].astype(np.int64), columns[:, :, 2].astype(np.int64)
    )
