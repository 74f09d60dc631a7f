"""Constrained beam search: n-grams that may not repeat, and terms that the text must hold.

Terms: dynamic beam allocation (Post and Vilar 2018, arXiv 1804.06609). Candidates are, beside the likeliest, all tokens
that advance a term; candidates that need equally many tokens to hold all terms make a bank, and the banks share the
beam
equally. So each number of tokens is there at its best price, and the hypothesis that wins is the best of those that
hold
everything. Only these may end; a hypothesis that could not write what is left within the limit is dropped while others
can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.top_k import Continuations, continuations, logsumexp, row_maxima, top_k
from models.decoding.constraints import TermAutomaton
from models.decoding.logits_processors import LogitPositions, concatenate_positions, repeated_ngram_tokens
from models.decoding.options import DecodingOptions

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


class BeamConstraints:
    """Of one beam. A term counts as there if the prefix holds it."""

    def __init__(
        self, options: DecodingOptions, prefix: Sequence[int], eos: int | None, terms: TermAutomaton | None
    ) -> None:
        self.size, self.eos, self.terms, self.limit = options.no_repeat_ngram_size, eos, terms, options.token_limit
        self.states = np.full(options.beam, terms.read(prefix) if terms else 0)  # of each hypothesis
        self.written = np.zeros((options.beam, options.token_limit), dtype=np.int64)
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

    def banned(self) -> LogitPositions:
        """By hypothesis."""
        return repeated_ngram_tokens(self.written[:, : self.length], self.size)

    def useful(self) -> Iterator[dict[int, bool]]:
        """Of each hypothesis what brings a term further, and whether fewer tokens are left then; where none are, the
        end."""
        if (terms := self.terms) is None:
            return iter(())
        end = {} if self.eos is None else {self.eos: True}
        return (terms.useful(state) if terms.left[state] else end for state in self.states.tolist())

    @property
    def room(self) -> int:
        """How many tokens a hypothesis may write after the next one, before its end."""
        return self.limit - self.length - 1 - (self.eos is not None)


def select_continuations(found: Candidates, bounds: Sequence[BeamConstraints], width: int, count: int) -> Continuations:
    """`count` of each beam, as `Beams.advance` takes them."""
    taken = Continuations(
        np.full((len(bounds), count), -np.inf, dtype=np.float32),
        np.zeros((len(bounds), count), dtype=np.int64),
        np.array([[int(each.eos == 0)] * count for each in bounds]),  # where there are too few: nothing ends
    )
    led = np.array([each.terms is not None for each in bounds])
    free, under = found.at(~led[found.beams]), found.at(led[found.beams])
    place_candidates(taken, best_per_beam(free, count, free.nats), np.zeros(len(bounds), dtype=np.int64))
    if len(under.nats):
        ending, living = split_ending_and_live(under, bounds, width, count)
        place_candidates(taken, ending, np.zeros(len(bounds), dtype=np.int64))
        place_candidates(taken, living, np.bincount(ending.beams, minlength=len(bounds)))
    return taken


def place_candidates(taken: Continuations, found: Candidates, starts: Ints) -> None:
    """Those of each beam, best first, from place starts [G] on."""
    found = found.at(np.lexsort((-found.nats, found.beams)))
    places = starts[found.beams] + ranks_in_groups(found.beams)
    taken.log_probabilities[found.beams, places] = found.nats
    taken.parents[found.beams, places], taken.tokens[found.beams, places] = found.parents, found.tokens


def ranks_in_groups(groups: Ints) -> Ints:
    """Equal numbers stand together -> how many of its own stand before each."""
    places = np.arange(len(groups))
    begins = np.concatenate([[True], groups[1:] != groups[:-1]]) if len(groups) else np.zeros(0, dtype=bool)
    counts: Ints = places - np.maximum.accumulate(np.where(begins, places, 0))
    return counts


def best_per_beam(found: Candidates, count: int, *keys: npt.NDArray[Any]) -> Candidates:
    """The best `count` of each beam: by the last key, where it is equal by the one before. Largest first."""
    order = np.lexsort((*(-each for each in keys), found.beams))
    return found.at(order[ranks_in_groups(found.beams[order]) < count])


def split_ending_and_live(
    found: Candidates, bounds: Sequence[BeamConstraints], width: int, count: int
) -> tuple[Candidates, Candidates]:
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
    best = best_per_beam(found.at(complete), min(width, count - width), found.nats[complete])
    ending = best.at(best.tokens == np.array([-1 if each.eos is None else each.eos for each in bounds])[best.beams])
    fits = (left <= room) & (ends == 0)
    any_fits = np.zeros(len(bounds), dtype=bool)
    any_fits[found.beams[fits]] = True
    live = (ends == 0) & (fits | ~any_fits[found.beams])
    return ending, allocate_banks(found.at(live), left[live], safe[live] > room[live], width)


def allocate_banks(found: Candidates, left: Ints, risky: npt.NDArray[np.bool_], width: int) -> Candidates:
    """The best `width` of each beam, in equal shares of its banks. The first is one that is sure to come to an end
    within the limit, of the furthest, so that one always does."""
    order = np.lexsort((-found.nats, left, risky, found.beams))
    surest = np.zeros(len(order), dtype=bool)
    surest[order[ranks_in_groups(found.beams[order]) == 0]] = True
    order = np.lexsort((-found.nats, ~surest, left, found.beams))
    ranks = np.zeros(len(order), dtype=np.int64)
    ranks[order] = ranks_in_groups(found.beams[order] * (1 + left.max(initial=0)) + left[order])
    return best_per_beam(found, width, found.nats, -ranks, surest.astype(np.int64))


def constrained_continuations(
    logits: Tensor, rows: Ints, so_far: Floats, bounds: Sequence[BeamConstraints | None]
) -> Continuations:
    """As `models.backends.top_k.continuations`, where some beams are bound."""
    width, size = rows.shape[1], logits.size(1)
    count = min(2 * width, width * min(2 * width, size))
    bound = np.array([each is not None for each in bounds])
    found = _constrained(logits, rows[bound], so_far[bound], [each for each in bounds if each is not None], count)
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


def _constrained(
    logits: Tensor, rows: Ints, so_far: Floats, bounds: Sequence[BeamConstraints], count: int
) -> Continuations:
    width = rows.shape[1]
    of = logits[torch.from_numpy(rows.ravel()).to(logits.device)]
    totals = logsumexp(of, row_maxima(of), keep=True)[:, None]
    _ban_repeats(of, bounds, width)
    values, tokens = top_k(of, min(2 * width, of.size(1)))
    useful, sure = _advancing_tokens(of, bounds, width)
    extra = (of[useful.on(of.device)] - totals[useful.on(of.device)[0], 0]).double()
    # one look at the device for all; float64 holds ids exactly
    flat = torch.cat([(values - totals).double().ravel(), tokens.double().ravel(), extra]).cpu().numpy()
    places = values.numel()
    parents = np.concatenate([np.repeat(np.arange(len(of)), values.size(1)), useful.rows])
    ids = np.concatenate([flat[places : 2 * places].astype(np.int64), useful.tokens])
    nats = (np.concatenate([flat[:places], flat[2 * places :]]) + so_far.ravel()[parents]).astype(np.float32)
    alive = nats > -np.inf
    alive[places:] &= _best_per_row(useful.rows, nats[places:], sure, 2 * width)
    _, once = np.unique((parents * of.size(1) + ids)[alive], return_index=True)
    kept = alive.nonzero()[0][once]
    beams, hypotheses = np.divmod(parents[kept], width)
    return select_continuations(Candidates(nats[kept], beams, hypotheses, ids[kept]), bounds, width, count)


def _ban_repeats(logits: Tensor, bounds: Sequence[BeamConstraints], width: int) -> None:
    found = [(place, bound.banned()) for place, bound in enumerate(bounds) if bound.size]
    if any(len(each.rows) for _, each in found):
        banned = concatenate_positions(
            [LogitPositions(each.rows + place * width, each.tokens) for place, each in found]
        )
        logits[banned.on(logits.device)] = -torch.inf


def _best_per_row(rows: Ints, nats: Floats, sure: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
    """The best `count` of each row, and the best of those that are sure: many terms have many beginnings."""
    best = np.zeros(len(rows), dtype=bool)
    for of, most in ((np.arange(len(rows)), count), (sure.nonzero()[0], 1)):
        order = of[np.lexsort((-nats[of], rows[of]))]
        best[order[ranks_in_groups(rows[order]) < most]] = True
    return best


def _advancing_tokens(
    logits: Tensor, bounds: Sequence[BeamConstraints], width: int
) -> tuple[LogitPositions, npt.NDArray[np.bool_]]:
    """And which of them bring a hypothesis nearer to its end. Where a word has to end first, the likeliest token that
    ends it does."""
    rows, tokens, sure, held = list[int](), list[int](), list[bool](), list[int]()
    for place, bound in enumerate(bounds):
        for row, useful in enumerate(bound.useful()):
            rows += [place * width + row] * len(useful)
            tokens += useful
            sure += useful.values()
            if not any(useful.values()):
                held.append(place * width + row)
    if held:
        rows += held
        one = next(each for each in bounds if each.terms is not None)
        tokens += _likeliest_word_starts(logits, held, one.terms, one.eos)
        sure += [True] * len(held)
    found = LogitPositions(np.array(rows, dtype=np.int64), np.array(tokens, dtype=np.int64))
    known = found.tokens < logits.size(1)
    return LogitPositions(found.rows[known], found.tokens[known]), np.array(sure, dtype=bool)[known]


def _likeliest_word_starts(logits: Tensor, rows: list[int], terms: TermAutomaton | None, eos: int | None) -> list[int]:
    """Of each row the likeliest token that does not continue a word, and is not the end."""
    continues = np.zeros(logits.size(1), dtype=bool)
    if terms is not None and terms.parts is not None:
        known = terms.parts.continues[: len(continues)]
        continues[: len(known)] = known
    if eos is not None:
        continues[eos] = True
    of = logits[torch.tensor(rows, device=logits.device)]
    found: list[int] = of.masked_fill(torch.from_numpy(continues).to(of.device), -torch.inf).argmax(dim=-1).tolist()
    return found
