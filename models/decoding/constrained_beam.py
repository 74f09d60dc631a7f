"""Constrained beam search: no repeated n-grams, and required terms.

Terms use dynamic beam allocation (Post and Vilar 2018, arXiv 1804.06609). Besides the likeliest tokens, all tokens that
advance a term are candidates. Candidates that still need the same number of tokens form a bank, and the banks share the
beam equally, so that the best hypothesis at every degree of completion survives. Only hypotheses with all terms may
end; a hypothesis without room for its missing terms is dropped while others have room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
Mask = npt.NDArray[np.bool_]


class BeamConstraints:
    """The constraints of one beam. Terms in the prefix count as present. states [k]: automaton state per hypothesis."""

    def __init__(
        self, options: DecodingOptions, prefix: Sequence[int], eos: int | None, terms: TermAutomaton | None
    ) -> None:
        self.ngram_size, self.eos, self.terms = options.no_repeat_ngram_size, eos, terms
        self.states = np.full(options.beam, terms.read(prefix) if terms else 0)
        self._limit = options.token_limit
        self._written = np.zeros((options.beam, options.token_limit), dtype=np.int64)
        self._length = 0

    def follow(self, origins: Ints, tokens: Ints) -> None:
        """Moves to the next step, where hypothesis i continues origins[i] with tokens[i]."""
        if self.terms is not None:
            self.states = self.terms.after(self.states[origins], tokens)
        if self.ngram_size:
            self._written = self._written[origins]
            self._written[:, self._length] = tokens
        self._length += 1

    def unmet(self, row: int) -> int:
        """The number of required terms that a hypothesis lacks."""
        return self.terms.states[self.states[row]].unmet if self.terms is not None else 0

    def banned(self) -> LogitPositions:
        """The tokens of each hypothesis that would repeat an n-gram."""
        return repeated_ngram_tokens(self._written[:, : self._length], self.ngram_size)

    def advancing(self) -> list[dict[int, bool]]:
        """Per hypothesis: token that advances a term -> whether fewer remain; the end token once all are present."""
        if (terms := self.terms) is None:
            return []
        end = {} if self.eos is None else {self.eos: True}
        return [terms.useful(state) if terms.left[state] else end for state in self.states.tolist()]

    @property
    def room(self) -> int:
        """How many tokens a hypothesis may write after the next one and before its end token."""
        return self._limit - self._length - 1 - (self.eos is not None)


class Candidates(NamedTuple):
    """Continuations of G beams, arrays [n]: cumulative log-probability, beam, parent hypothesis, token."""

    log_probabilities: Floats
    beams: Ints
    parents: Ints
    tokens: Ints

    def at(self, places: Ints | Mask) -> Candidates:
        log_probabilities, beams, parents, tokens = self
        return Candidates(log_probabilities[places], beams[places], parents[places], tokens[places])

    def best(self, count: int, *keys: Ints | Floats) -> Candidates:
        """The `count` best of each beam, in descending order of the last key; ties go by the key before it."""
        order = np.lexsort((*(-key for key in keys), self.beams))
        return self.at(order[ranks_in_groups(self.beams[order]) < count])


def constrained_continuations(
    logits: Tensor, rows: Ints, so_far: Floats, constraints: Sequence[BeamConstraints | None]
) -> Continuations:
    """Like `models.backends.top_k.continuations`, for beams of which some have constraints. rows [G, k]: rows of logits
    [B, V]. so_far [G, k]: log-probabilities."""
    width, vocabulary = rows.shape[1], logits.size(1)
    count = min(2 * width, width * min(2 * width, vocabulary))
    constrained = np.array([one is not None for one in constraints])
    present = [one for one in constraints if one is not None]
    candidates = _candidates(logits, rows[constrained], so_far[constrained], present)
    chosen = _selected(candidates, present, width, count)
    if constrained.all():
        return chosen
    # last, because it overwrites the logits
    free = continuations(logits, np.ascontiguousarray(rows[~constrained]), so_far[~constrained])
    order = np.argsort(np.concatenate([constrained.nonzero()[0], (~constrained).nonzero()[0]]))
    return Continuations(
        np.concatenate([chosen.log_probabilities, free.log_probabilities])[order],
        np.concatenate([chosen.parents, free.parents])[order],
        np.concatenate([chosen.tokens, free.tokens])[order],
    )


# Candidates: the likeliest tokens, and tokens that advance a term ----------------------------------------------


def _candidates(logits: Tensor, rows: Ints, so_far: Floats, constraints: Sequence[BeamConstraints]) -> Candidates:
    width = rows.shape[1]
    logits = logits[torch.from_numpy(rows.ravel()).to(logits.device)]
    totals = logsumexp(logits, row_maxima(logits), keep=True)[:, None]
    _ban_repeats(logits, constraints, width)
    values, tokens = top_k(logits, min(2 * width, logits.size(1)))
    advancing, sure = _advancing_tokens(logits, constraints, width)
    where = advancing.on(logits.device)
    extra = (logits[where] - totals[where[0], 0]).double()
    # a single device synchronisation; float64 holds ids exactly
    flat = torch.cat([(values - totals).double().ravel(), tokens.double().ravel(), extra]).cpu().numpy()
    places = values.numel()
    parents = np.concatenate([np.repeat(np.arange(len(logits)), values.size(1)), advancing.rows])
    ids = np.concatenate([flat[places : 2 * places].astype(np.int64), advancing.tokens])
    nats = (np.concatenate([flat[:places], flat[2 * places :]]) + so_far.ravel()[parents]).astype(np.float32)
    alive = nats > -np.inf
    alive[places:] &= _best_per_row(advancing.rows, nats[places:], sure, 2 * width)
    _, once = np.unique((parents * logits.size(1) + ids)[alive], return_index=True)
    kept = alive.nonzero()[0][once]
    beams, hypotheses = np.divmod(parents[kept], width)
    return Candidates(nats[kept], beams, hypotheses, ids[kept])


def _ban_repeats(logits: Tensor, constraints: Sequence[BeamConstraints], width: int) -> None:
    banned = [(beam, one.banned()) for beam, one in enumerate(constraints) if one.ngram_size]
    if any(len(positions.rows) for _, positions in banned):
        shifted = [LogitPositions(positions.rows + beam * width, positions.tokens) for beam, positions in banned]
        logits[concatenate_positions(shifted).on(logits.device)] = -torch.inf


def _advancing_tokens(
    logits: Tensor, constraints: Sequence[BeamConstraints], width: int
) -> tuple[LogitPositions, Mask]:
    """Tokens that advance a term, and which of them bring a hypothesis closer to completion. Inside a word that has to
    end first, that is the likeliest token that ends it."""
    rows, tokens, sure, inside_words = list[int](), list[int](), list[bool](), list[int]()
    for beam, one in enumerate(constraints):
        for hypothesis, advancing in enumerate(one.advancing()):
            row = beam * width + hypothesis
            rows += [row] * len(advancing)
            tokens += advancing
            sure += advancing.values()
            if not any(advancing.values()):
                inside_words.append(row)
    if inside_words:
        with_terms = next(one for one in constraints if one.terms is not None)
        rows += inside_words
        tokens += _likeliest_separators(logits, inside_words, with_terms)
        sure += [True] * len(inside_words)
    positions = LogitPositions(np.array(rows, dtype=np.int64), np.array(tokens, dtype=np.int64))
    known = positions.tokens < logits.size(1)
    return LogitPositions(positions.rows[known], positions.tokens[known]), np.array(sure, dtype=bool)[known]


def _likeliest_separators(logits: Tensor, rows: list[int], constraints: BeamConstraints) -> list[int]:
    """Per row, the likeliest token after which a term that starts with a word continuation may begin: it neither
    continues a word nor can be continued, and is not the end token."""
    excluded = np.zeros(logits.size(1), dtype=bool)
    if constraints.terms is not None and (parts := constraints.terms.parts) is not None:
        joined = (parts.continues | parts.open)[: len(excluded)]
        excluded[: len(joined)] = joined
    if constraints.eos is not None:
        excluded[constraints.eos] = True
    allowed = logits[rows].masked_fill(torch.from_numpy(excluded).to(logits.device), -torch.inf)
    tokens: list[int] = allowed.argmax(dim=-1).tolist()
    return tokens


def _best_per_row(rows: Ints, nats: Floats, sure: Mask, count: int) -> Mask:
    """The `count` best of each row and its best sure one: with many terms, many tokens begin one."""
    best = np.zeros(len(rows), dtype=bool)
    for places, limit in ((np.arange(len(rows)), count), (sure.nonzero()[0], 1)):
        order = places[np.lexsort((-nats[places], rows[places]))]
        best[order[ranks_in_groups(rows[order]) < limit]] = True
    return best


# Selection: which candidates end, and which live hypotheses share the beam -------------------------------------


def _selected(candidates: Candidates, constraints: Sequence[BeamConstraints], width: int, count: int) -> Continuations:
    """`count` continuations per beam, in the order that `Beams.advance` takes."""
    beams = len(constraints)
    selected = Continuations(
        np.full((beams, count), -np.inf, dtype=np.float32),
        np.zeros((beams, count), dtype=np.int64),
        np.array([[int(one.eos == 0)] * count for one in constraints]),  # padding, never the end token
    )

    def place(chosen: Candidates, starts: Ints) -> None:
        """Writes the chosen candidates of each beam, best first, from index starts [G] on."""
        chosen = chosen.at(np.lexsort((-chosen.log_probabilities, chosen.beams)))
        places = starts[chosen.beams] + ranks_in_groups(chosen.beams)
        selected.log_probabilities[chosen.beams, places] = chosen.log_probabilities
        selected.parents[chosen.beams, places], selected.tokens[chosen.beams, places] = chosen.parents, chosen.tokens

    front = np.zeros(beams, dtype=np.int64)
    with_terms = np.array([one.terms is not None for one in constraints])
    free = candidates.at(~with_terms[candidates.beams])
    place(free.best(count, free.log_probabilities), front)
    if len(candidates.beams) > len(free.beams):
        ending, live = _ending_and_live(candidates.at(with_terms[candidates.beams]), constraints, width, count)
        place(ending, front)
        place(live, np.bincount(ending.beams, minlength=beams))
    return selected


def _ending_and_live(
    candidates: Candidates, constraints: Sequence[BeamConstraints], width: int, count: int
) -> tuple[Candidates, Candidates]:
    """Candidates that end with all terms present, if they are among the best complete ones; and up to `width` live
    candidates in equal shares per bank, with unused shares going to the other banks."""
    size = len(candidates.beams)
    left, safe, ends = (np.zeros(size, dtype=np.int64) for _ in range(3))  # left: tokens needed, which is the bank
    for beam in np.unique(candidates.beams).tolist():
        here, one = candidates.beams == beam, constraints[beam]
        assert one.terms is not None
        states, tokens = one.states[candidates.parents[here]], candidates.tokens[here]
        ends[here] = tokens == one.eos
        after = np.where(tokens == one.eos, states, one.terms.after(states, tokens))
        left[here], safe[here] = one.terms.left[after], one.terms.safe[after]
    room = np.array([one.room for one in constraints])[candidates.beams]
    complete = (left == 0) & ((ends == 1) | (room >= 0))  # at the last position every complete hypothesis can end
    best = candidates.at(complete).best(min(width, count - width), candidates.log_probabilities[complete])
    ending = best.at(best.tokens == np.array([-1 if one.eos is None else one.eos for one in constraints])[best.beams])
    fits = (left <= room) & (ends == 0)
    any_fits = np.zeros(len(constraints), dtype=bool)
    any_fits[candidates.beams[fits]] = True
    live = (ends == 0) & (fits | ~any_fits[candidates.beams])
    return ending, _share_among_banks(candidates.at(live), left[live], safe[live] > room[live], width)


def _share_among_banks(candidates: Candidates, left: Ints, risky: Mask, width: int) -> Candidates:
    """The `width` best of each beam in equal shares per bank. First comes the best of the most complete candidates that
    are sure to finish within the limit, so that one always does."""
    order = np.lexsort((-candidates.log_probabilities, left, risky, candidates.beams))
    surest = np.zeros(len(order), dtype=bool)
    surest[order[ranks_in_groups(candidates.beams[order]) == 0]] = True
    order = np.lexsort((-candidates.log_probabilities, ~surest, left, candidates.beams))
    ranks = np.zeros(len(order), dtype=np.int64)
    ranks[order] = ranks_in_groups(candidates.beams[order] * (1 + left.max(initial=0)) + left[order])
    return candidates.best(width, candidates.log_probabilities, -ranks, surest.astype(np.int64))


def ranks_in_groups(groups: Ints) -> Ints:
    """Equal numbers are adjacent. Returns for each element how many of its group come before it."""
    places = np.arange(len(groups))
    begins = np.concatenate([[True], groups[1:] != groups[:-1]]) if len(groups) else np.zeros(0, dtype=bool)
    ranks: Ints = places - np.maximum.accumulate(np.where(begins, places, 0))
    return ranks
