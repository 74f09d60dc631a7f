"""Which required terms a text holds so far: an automaton whose states are made as they are reached.

No token serves two terms, and a term that was begun may be left again; which tokens serve which term is open until it
matters. So a state is a set of possible readings of the text, without those that no continuation can make better than
another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.decoding.options import MAX_REQUIRED_TERMS
from models.tokenizer.word_parts import WordParts

RequiredTerms = Sequence[Sequence[Sequence[int]]]
Ints = npt.NDArray[np.int64]
TOKEN_KINDS = 4  # of tokens: that continue a word or do not, and that one can continue or cannot
TERMS_LENGTH_PENALTY = 0.5  # suits terms: what they cost counts for less in longer texts, and 1 pads these out
MAX_READINGS = 32  # of a text; whoever is further from the end is forgotten first


def constrained_beam_size(required: RequiredTerms, beam: int) -> int:
    """How wide a beam should be that is to search as well as one of that width without terms: each number of tokens
    that are there has hypotheses of its own."""
    steps = sum(min(map(len, term)) for term in required)
    return beam + min(steps, beam) if required else beam


class Reading(NamedTuple):
    """met: the terms that are there, a bit each. run: the one being written, of which `written` tokens are there; term
    -1: none is. open: the last token completed a term, if no word goes on from there."""

    met: int = 0
    term: int = -1
    run: tuple[int, ...] = ()
    written: int = 0
    open: bool = False


class State(NamedTuple):
    """inside: the last token ends inside a word, if the next one continues it. left: tokens that are needed at least.
    unmet: how many terms are not there."""

    readings: frozenset[Reading]
    inside: bool
    left: int
    unmet: int


class TermAutomaton:
    """Those of one request. parts: which tokens join to words; None: none do. States are numbers. left: by
    state, tokens that are needed at least; safe: that are enough, if others may have to stand between two terms."""

    def __init__(self, required: RequiredTerms, parts: WordParts | None = None) -> None:
        assert len(required) <= MAX_REQUIRED_TERMS
        self.runs = [tuple(dict.fromkeys(tuple(run) for run in term)) for term in required]
        self.parts = parts
        self._all = (1 << len(self.runs)) - 1
        self._least = [min(len(run) for run in term) for term in self.runs]
        self._safe = [min(len(run) + self._continues(run[0]) for run in term) for term in self.runs]
        # terms that cost one less than that at the beginning of a word
        parted = (
            safe > min(len(run) for run in term if len(run) + self._continues(run[0]) == safe)
            for term, safe in zip(self.runs, self._safe, strict=True)
        )
        self._parted = sum(1 << place for place, each in enumerate(parted) if each)
        # of equal terms each waits for the one before it, so that it does not matter which of them is meant
        alike: dict[frozenset[tuple[int, ...]], int] = {}
        self._after = [0] * len(self.runs)
        for term, runs in enumerate(self.runs):
            self._after[term] = alike.get(frozenset(runs), 0)
            alike[frozenset(runs)] = 1 << term
        # tokens that no term names differ only in what they do to words
        self._named = np.array(sorted({token for term in self.runs for run in term for token in run}), dtype=np.int64)
        self._moves = np.full((8, len(self._named) + TOKEN_KINDS), -1, dtype=np.int32)  # -1: not known yet
        self.left, self.safe = (np.zeros(8, dtype=np.int64) for _ in range(2))
        # by the terms that are there: how many tokens the others need, and what may begin by each token
        self._sums: dict[int, tuple[int, int]] = {}
        self._beginnings: dict[int, dict[int, list[Reading]]] = {}
        self._led: dict[int, dict[int, bool]] = {}  # by state: its `useful`
        self._numbers: dict[tuple[frozenset[Reading], bool], int] = {}
        self.states: list[State] = []
        self.start = self._number(frozenset([Reading()]), False)

    def _continues(self, token: int) -> bool:
        return self.parts is not None and token < len(self.parts.continues) and bool(self.parts.continues[token])

    def _open(self, token: int) -> bool:
        return self.parts is not None and token < len(self.parts.open) and bool(self.parts.open[token])

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """[n] each -> [n]."""
        columns = self._columns(tokens)
        found = self._moves[states, columns]
        if (found < 0).any():
            for place in (found < 0).nonzero()[0].tolist():
                state, column = int(states[place]), columns[place]
                if self._moves[state, column] < 0:
                    number = self._next(self.states[state], int(tokens[place]))  # for which the array may grow
                    self._moves[state, column] = number
            found = self._moves[states, columns]
        return found.astype(np.int64)

    def _columns(self, tokens: Ints) -> Ints:
        places = self._named.searchsorted(tokens)
        named = self._named[places.clip(max=len(self._named) - 1)] == tokens
        kinds = self.parts.kinds_of(tokens) if self.parts is not None else np.zeros_like(tokens)
        columns: Ints = np.where(named, places + TOKEN_KINDS, kinds)
        return columns

    def read(self, tokens: Sequence[int]) -> int:
        state = self.start
        for token in tokens:
            state = int(self.after(np.array([state]), np.array([token]))[0])
        return state

    def _next(self, state: State, token: int) -> int:
        inside, grown = self._open(token), set[Reading]()
        same_word = state.inside and self._continues(token)
        for reading in state.readings:
            if reading.term >= 0:
                if reading.run[reading.written] == token:
                    grown.add(self._further(reading, inside))
            elif not (reading.open and same_word):  # else no term ended here
                none = Reading(reading.met)
                grown.add(none)
                if not same_word:
                    begins = self._begins(reading.met).get(token, ())
                    grown |= {self._further(each, inside) for each in begins}
        return self._number(frozenset(self._worth_keeping(grown)), inside)

    def _begins(self, met: int) -> dict[int, list[Reading]]:
        """With nothing of it written."""
        found = self._beginnings.get(met)
        if found is None:
            found = self._beginnings[met] = {}
            for term, runs in enumerate(self.runs):
                if not met >> term & 1 and self._after[term] & met == self._after[term]:
                    for run in runs:
                        found.setdefault(run[0], []).append(Reading(met, term, run))
        return found

    def _sum(self, met: int) -> tuple[int, int]:
        found = self._sums.get(met)
        if found is None:
            unmet = [term for term in range(len(self.runs)) if not met >> term & 1]
            found = self._sums[met] = sum(self._least[term] for term in unmet), sum(self._safe[term] for term in unmet)
        return found

    def _further(self, reading: Reading, inside: bool) -> Reading:
        """By the next token of its run."""
        if reading.written + 1 == len(reading.run):
            return Reading(reading.met | 1 << reading.term, open=inside)
        return reading._replace(written=reading.written + 1)

    def _worth_keeping(self, readings: set[Reading]) -> list[Reading]:
        kept: list[Reading] = []
        ordered = sorted(readings, key=lambda each: (self._left(each)[0], each.term >= 0, each.open, each))
        for reading in ordered:
            certain = reading.term < 0 and not reading.open  # to such a one every text can come back
            if (certain or len(kept) < MAX_READINGS) and not any(self._beats(other, reading) for other in kept):
                kept.append(reading)
        return kept

    def _beats(self, one: Reading, other: Reading) -> bool:
        """Whatever comes, the other one is never ahead."""
        if one.term >= 0:
            same = one.term == other.term and one.run == other.run and one.written == other.written
            return same and one.met | other.met == one.met
        met = other.met | (1 << other.term if other.term >= 0 else 0)
        return one.met | met == one.met and (not one.open or (other.open and other.term < 0))

    def _left(self, reading: Reading, *, inside: bool = True) -> tuple[int, int]:
        """And those that are surely enough."""
        if reading.term < 0:
            left, safe = self._sum(reading.met)
            return left, safe - (not inside and bool(self._parted & ~reading.met))
        more, (left, safe) = len(reading.run) - reading.written, self._sum(reading.met | 1 << reading.term)
        return left + more, safe + more

    def useful(self, number: int) -> dict[int, bool]:
        """The tokens that bring a term further from the readings that are furthest, and whether fewer are left then."""
        found = self._led.get(number)
        if found is None:
            state, found = self.states[number], {}
            for each in sorted(state.readings):
                left, safe = self._left(each, inside=state.inside)
                if left > state.left and safe > self.safe[number]:
                    continue
                sure = safe == self.safe[number]
                if each.term >= 0:
                    found[each.run[each.written]] = found.get(each.run[each.written], False) or sure
                    continue
                for token, begun in self._begins(each.met).items():
                    if not (state.inside and self._continues(token)):
                        cheap = any(len(one.run) + self._continues(token) == self._safe[one.term] for one in begun)
                        found[token] = found.get(token, False) or (sure and cheap)
            self._led[number] = found
        return found

    def _number(self, readings: frozenset[Reading], inside: bool) -> int:
        found = self._numbers.get((readings, inside))
        if found is None:
            found = self._numbers[readings, inside] = len(self.states)
            both = [self._left(each, inside=inside) for each in readings]
            left, safe = (min(each) for each in zip(*both, strict=True))
            unmet = min((self._all & ~each.met).bit_count() for each in readings)
            self.states.append(State(readings, inside, left, unmet))
            if found == len(self.left):
                self.left, self.safe = (np.concatenate([each, np.zeros_like(each)]) for each in (self.left, self.safe))
                self._moves = np.concatenate([self._moves, np.full_like(self._moves, -1)])
            self.left[found], self.safe[found] = left, safe
        return found
