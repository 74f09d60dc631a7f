"""Beam search under bounds: runs that may not come again, and terms that must come.

Terms: dynamic beam allocation (Post and Vilar 2018, arXiv 1804.06609). Candidates are, beside the likeliest, all tokens
that bring a term further; those that need as many tokens as each other to hold all terms make a bank, and the banks
share the beam equally. So each number of tokens is there at its best price, and the hypothesis that wins is the best of
those that hold everything. Only these may end; and whoever could not write what is left within the limit is dropped
while others can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

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


class Candidates(NamedTuple):
    """Of G beams, arrays [n]: log-probability of all tokens up to this one, which beam it is of and which hypothesis of
    that it continues, and with what token."""

    nats: Floats
    beams: Ints
    parents: Ints
    tokens: Ints

    def at(self, places: npt.NDArray[Any]) -> Candidates:
        return Candidates(*(column[places] for column in self))


class Bound:
    """Of one beam. A term counts as there if the prefix holds it."""

    def __init__(self, options: DecodingOptions, prefix: Sequence[int], eos: int | None, terms: Terms | None) -> None:
        self.size, self.eos, self.terms, self.limit = options.no_repeat_ngram_size, eos, terms, options.max_new_tokens
        self.states = np.full(options.beam, terms.read(prefix) if terms else 0)  # of each hypothesis
        self.written = np.zeros((options.beam, options.max_new_tokens), dtype=np.int64)
        self.length = 0

    def follow(self, came: Ints, last: Ints) -> None:
        """Hypothesis i continues came[i] with last[i]."""
        if self.terms is not None:
            self.states = self.terms.after(self.states[came], last)
        if self.size:
            self.written = self.written[came]
            self.written[:, self.length] = last
        self.length += 1

    def unmet(self, row: int) -> int:
        return self.terms.states[self.states[row]].unmet if self.terms is not None else 0

    def banned(self) -> Places:
        """By hypothesis."""
        return repeated(self.written[:, : self.length], self.size)

    def useful(self) -> Iterator[list[int]]:
        """Of each hypothesis what brings a term further; where all are there, the end."""
        if self.terms is None:
            return iter(())
        end = [] if self.eos is None else [self.eos]
        states = (self.terms.states[state] for state in self.states.tolist())
        return (state.useful if state.left else end for state in states)

    @property
    def room(self) -> int:
        """How many tokens a hypothesis may write after the next one, before its end."""
        return self.limit - self.length - 1 - (self.eos is not None)


def chosen(found: Candidates, bounds: Sequence[Bound], width: int, count: int) -> Continuations:
    """`count` of each beam, as `Beams.advance` takes them."""
    taken = Continuations(
        np.full((len(bounds), count), -np.inf, dtype=np.float32),
        np.zeros((len(bounds), count), dtype=np.int64),
        np.array([[int(each.eos == 0)] * count for each in bounds]),  # where there are too few: nothing ends
    )
    led = np.array([each.terms is not None for each in bounds])
    free, under = found.at(~led[found.beams]), found.at(led[found.beams])
    fill(taken, first(free, count, free.nats), np.zeros(len(bounds), dtype=np.int64))
    if len(under.nats):
        ending, living = under_terms(under, bounds, width, count)
        fill(taken, ending, np.zeros(len(bounds), dtype=np.int64))
        fill(taken, living, np.bincount(ending.beams, minlength=len(bounds)))
    return taken


def fill(taken: Continuations, found: Candidates, starts: Ints) -> None:
    """Those of each beam, best first, from place starts [G] on."""
    found = found.at(np.lexsort((-found.nats, found.beams)))
    places = starts[found.beams] + counted(found.beams)
    taken.log_probabilities[found.beams, places] = found.nats
    taken.parents[found.beams, places] = found.parents
    taken.tokens[found.beams, places] = found.tokens


def counted(groups: Ints) -> Ints:
    """Equal numbers stand together -> how many of its own stand before each."""
    places = np.arange(len(groups))
    begins = np.concatenate([[True], groups[1:] != groups[:-1]]) if len(groups) else np.zeros(0, dtype=bool)
    counts: Ints = places - np.maximum.accumulate(np.where(begins, places, 0))
    return counts


def first(found: Candidates, count: int, *keys: npt.NDArray[Any]) -> Candidates:
    """The best `count` of each beam: by the last key, where it is equal by the one before. Largest first."""
    order = np.lexsort((*(-each for each in keys), found.beams))
    return found.at(order[counted(found.beams[order]) < count])


def under_terms(found: Candidates, bounds: Sequence[Bound], width: int, count: int) -> tuple[Candidates, Candidates]:
    """Those that end and hold all terms, if they are among the best of those that do; and as many as may stay live, in
    equal shares of the banks. What one bank does not use, the others have."""
    left, safe, ends = (np.zeros(len(found.nats), dtype=np.int64) for _ in range(3))
    rooms = np.array([each.room for each in bounds])
    for beam in np.unique(found.beams).tolist():
        here, bound = found.beams == beam, bounds[beam]
        assert bound.terms is not None
        states, tokens = bound.states[found.parents[here]], found.tokens[here]
        ends[here] = tokens == bound.eos
        after = np.where(tokens == bound.eos, states, bound.terms.after(states, tokens))
        left[here], safe[here] = bound.terms.left[after], bound.terms.safe[after]
    room = rooms[found.beams]
    complete = (left == 0) & ((ends == 1) | (room >= 0))  # at the last place whatever can end
    best = first(found.at(complete), min(width, count - width), found.nats[complete])
    ending = best.at(best.tokens == np.array([-1 if each.eos is None else each.eos for each in bounds])[best.beams])
    fits = (left <= room) & (ends == 0)
    any_fits = np.zeros(len(bounds), dtype=bool)
    any_fits[found.beams[fits]] = True
    live = (ends == 0) & (fits | ~any_fits[found.beams])
    return ending, shared(found.at(live), left[live], safe[live] > room[live], width)


def shared(found: Candidates, left: Ints, risky: npt.NDArray[np.bool_], width: int) -> Candidates:
    """The best `width` of each beam, in equal shares of its banks. The first is one that is sure to come to an end
    within the limit, of the furthest, so that one always does."""
    order = np.lexsort((-found.nats, left, risky, found.beams))
    surest = np.zeros(len(order), dtype=bool)
    surest[order[counted(found.beams[order]) == 0]] = True
    order = np.lexsort((-found.nats, ~surest, left, found.beams))
    ranks = np.zeros(len(order), dtype=np.int64)
    ranks[order] = counted(found.beams[order] * (1 + left.max(initial=0)) + left[order])
    return first(found, width, found.nats, -ranks, surest.astype(np.int64))


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
    return Continuations(
        np.concatenate([found.log_probabilities, free.log_probabilities])[order],
        np.concatenate([found.parents, free.parents])[order],
        np.concatenate([found.tokens, free.tokens])[order],
    )


def _bound(logits: Tensor, rows: Ints, so_far: Floats, bounds: Sequence[Bound], count: int) -> Continuations:
    width = rows.shape[1]
    of = logits[torch.from_numpy(rows.ravel()).to(logits.device)]
    totals = log_total(of, largest(of), keep=True)[:, None]
    _ban(of, bounds, width)
    values, tokens = top(of, min(2 * width, of.size(1)))
    useful = _useful(bounds, width, of.size(1))
    extra = (of[useful.on(of.device)] - totals[useful.on(of.device)[0], 0]).double()
    # one look at the device for all; float64 holds ids exactly
    flat = torch.cat([(values - totals).double().ravel(), tokens.double().ravel(), extra]).cpu().numpy()
    places = values.numel()
    parents = np.concatenate([np.repeat(np.arange(len(of)), values.size(1)), useful.rows])
    ids = np.concatenate([flat[places : 2 * places].astype(np.int64), useful.tokens])
    nats = (np.concatenate([flat[:places], flat[2 * places :]]) + so_far.ravel()[parents]).astype(np.float32)
    alive = nats > -np.inf
    _, once = np.unique((parents * of.size(1) + ids)[alive], return_index=True)
    kept = alive.nonzero()[0][once]
    beams, hypotheses = np.divmod(parents[kept], width)
    return chosen(Candidates(nats[kept], beams, hypotheses, ids[kept]), bounds, width, count)


def _ban(logits: Tensor, bounds: Sequence[Bound], width: int) -> None:
    found = [(place, bound.banned()) for place, bound in enumerate(bounds) if bound.size]
    if any(len(each.rows) for _, each in found):
        banned = together([Places(each.rows + place * width, each.tokens) for place, each in found])
        logits[banned.on(logits.device)] = -torch.inf


def _useful(bounds: Sequence[Bound], width: int, vocabulary: int) -> Places:
    rows, tokens = list[int](), list[int]()
    for place, bound in enumerate(bounds):
        for row, useful in enumerate(bound.useful()):
            rows += [place * width + row] * len(useful)
            tokens += useful
    found = Places(np.array(rows, dtype=np.int64), np.array(tokens, dtype=np.int64))
    known = found.tokens < vocabulary
    return Places(found.rows[known], found.tokens[known])
