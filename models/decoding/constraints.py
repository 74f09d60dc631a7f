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

RequiredTerms = Sequence[Sequence[Sequence[int]]]  # terms, each a choice of token runs
Ints = npt.NDArray[np.int64]
TOKEN_KINDS = 4  # tokens continue a word or do not, and one can continue them or cannot
TERMS_LENGTH_PENALTY = 0.5  # suits terms: what they cost counts for less in longer texts, and 1 pads these out
MAX_READINGS = 32  # of a text; those that are further from the end are forgotten first


def constrained_beam_size(required: RequiredTerms, beam: int) -> int:
    """How wide a beam should be that is to search as well as one of that width without terms: each number of tokens
    that are there has hypotheses of its own."""
    steps = sum(min(map(len, term)) for term in required)
    return beam + min(steps, beam) if required else beam


class Reading(NamedTuple):
    """One way to read a text. met: the terms that it holds, a bit each. run: the one being written, of which `written`
    tokens are there; term -1: none is. open: the last token completed a term, if no word goes on from there."""

    met: int = 0
    term: int = -1
    run: tuple[int, ...] = ()
    written: int = 0
    open: bool = False


class State(NamedTuple):
    """inside: the last token ends inside a word, if the next one continues it. left: tokens that are needed at least.
    unmet: how many terms are missing."""

    readings: frozenset[Reading]
    inside: bool
    left: int
    unmet: int


class TermAutomaton:
    """The terms of one request. parts: which tokens join to words; None: none do. States are numbers. By state, left:
    tokens that are needed at least; safe: tokens that are enough, if others may have to stand between two terms."""

    def __init__(self, required: RequiredTerms, parts: WordParts | None = None) -> None:
        assert len(required) <= MAX_REQUIRED_TERMS
        self.runs = [tuple(dict.fromkeys(tuple(run) for run in term)) for term in required]
        self.parts = parts
        self._all = (1 << len(self.runs)) - 1
        self._least = [min(len(run) for run in term) for term in self.runs]
        self._safe = [min(len(run) + self._continues(run[0]) for run in term) for term in self.runs]
        self._cheaper_at_word_start = 0  # terms, a bit each, that take one token less there
        # of equal terms each waits for the one before it, so that it does not matter which of them is meant
        self._predecessors = [0] * len(self.runs)
        seen: dict[frozenset[tuple[int, ...]], int] = {}
        for term, (runs, safe) in enumerate(zip(self.runs, self._safe, strict=True)):
            if safe > min(len(run) for run in runs if len(run) + self._continues(run[0]) == safe):
                self._cheaper_at_word_start |= 1 << term
            self._predecessors[term] = seen.get(frozenset(runs), 0)
            seen[frozenset(runs)] = 1 << term
        # tokens that no term names differ only in what they do to words
        self._named = np.array(sorted({token for term in self.runs for run in term for token in run}), dtype=np.int64)
        self._moves = np.full((8, len(self._named) + TOKEN_KINDS), -1, dtype=np.int32)  # -1: not known yet
        self.left, self.safe = np.zeros(8, dtype=np.int64), np.zeros(8, dtype=np.int64)
        self._beginnings: dict[int, dict[int, list[Reading]]] = {}  # by the terms that are met
        self._useful: dict[int, dict[int, bool]] = {}  # by state
        self._numbers: dict[tuple[frozenset[Reading], bool], int] = {}
        self.states: list[State] = []
        self.start = self._number(frozenset([Reading()]), False)

    def _continues(self, token: int) -> bool:
        return self.parts is not None and token < len(self.parts.continues) and bool(self.parts.continues[token])

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """The states that follow, [n] each -> [n]."""
        places = self._named.searchsorted(tokens)
        named = self._named[places.clip(max=len(self._named) - 1)] == tokens
        kinds = self.parts.kinds_of(tokens) if self.parts is not None else np.zeros_like(tokens)
        columns = np.where(named, places + TOKEN_KINDS, kinds)
        after = self._moves[states, columns]
        if (after < 0).any():
            for place in (after < 0).nonzero()[0].tolist():
                state, column = int(states[place]), columns[place]
                if self._moves[state, column] < 0:
                    number = self._next(self.states[state], int(tokens[place]))  # for which the array may grow
                    self._moves[state, column] = number
            after = self._moves[states, columns]
        return after.astype(np.int64)

    def read(self, tokens: Sequence[int]) -> int:
        """The state of a text."""
        state = self.start
        for token in tokens:
            state = int(self.after(np.array([state]), np.array([token]))[0])
        return state

    def useful(self, number: int) -> dict[int, bool]:
        """The tokens that advance a term in the readings that are furthest, and whether fewer are left then."""
        useful = self._useful.get(number)
        if useful is None:
            useful = self._useful[number] = {}
            state, safest = self.states[number], self.safe[number]
            for reading in sorted(state.readings):
                left, safe = self._left(reading, inside=state.inside)
                if left > state.left and safe > safest:
                    continue
                sure = safe == safest
                if reading.term >= 0:
                    token = reading.run[reading.written]
                    useful[token] = useful.get(token, False) or sure
                    continue
                for token, begun in self._begins(reading.met).items():
                    if not (state.inside and self._continues(token)):
                        cheap = any(len(one.run) + self._continues(token) == self._safe[one.term] for one in begun)
                        useful[token] = useful.get(token, False) or (sure and cheap)
        return useful

    def _next(self, state: State, token: int) -> int:
        parts = self.parts
        inside = parts is not None and token < len(parts.open) and bool(parts.open[token])
        same_word = state.inside and self._continues(token)
        readings = set[Reading]()
        for reading in state.readings:
            if reading.term >= 0:
                if reading.run[reading.written] == token:
                    readings.add(self._advanced(reading, inside))
            elif not (reading.open and same_word):  # else no term ended here
                readings.add(Reading(reading.met))
                if not same_word:
                    readings |= {self._advanced(begun, inside) for begun in self._begins(reading.met).get(token, ())}
        return self._number(frozenset(self._worth_keeping(readings)), inside)

    def _advanced(self, reading: Reading, inside: bool) -> Reading:
        """By the next token of its run."""
        if reading.written + 1 == len(reading.run):
            return Reading(reading.met | 1 << reading.term, open=inside)
        return reading._replace(written=reading.written + 1)

    def _begins(self, met: int) -> dict[int, list[Reading]]:
        """By its first token, each run that may begin where these terms are met."""
        begins = self._beginnings.get(met)
        if begins is None:
            begins = self._beginnings[met] = {}
            for term, runs in enumerate(self.runs):
                if not met >> term & 1 and self._predecessors[term] & met == self._predecessors[term]:
                    for run in runs:
                        begins.setdefault(run[0], []).append(Reading(met, term, run))
        return begins

    def _worth_keeping(self, readings: set[Reading]) -> list[Reading]:
        kept: list[Reading] = []
        for reading in sorted(readings, key=lambda r: (self._left(r)[0], r.term >= 0, r.open, r)):
            certain = reading.term < 0 and not reading.open  # every text can come back to such a reading
            if (certain or len(kept) < MAX_READINGS) and not any(self._dominates(other, reading) for other in kept):
                kept.append(reading)
        return kept

    def _dominates(self, one: Reading, other: Reading) -> bool:
        """Whatever comes, the other one is never ahead."""
        if one.term >= 0:
            same = one.term == other.term and one.run == other.run and one.written == other.written
            return same and one.met | other.met == one.met
        met = other.met | (1 << other.term if other.term >= 0 else 0)
        return one.met | met == one.met and (not one.open or (other.open and other.term < 0))

    def _left(self, reading: Reading, *, inside: bool = True) -> tuple[int, int]:
        """Tokens that are needed at least, and those that are surely enough."""
        met = reading.met | (1 << reading.term if reading.term >= 0 else 0)
        more = len(reading.run) - reading.written if reading.term >= 0 else 0
        unmet = [term for term in range(len(self.runs)) if not met >> term & 1]
        left, safe = more + sum(self._least[term] for term in unmet), more + sum(self._safe[term] for term in unmet)
        if reading.term < 0 and not inside and self._cheaper_at_word_start & ~met:
            safe -= 1
        return left, safe

    def _number(self, readings: frozenset[Reading], inside: bool) -> int:
        number = self._numbers.get((readings, inside))
        if number is None:
            number = self._numbers[readings, inside] = len(self.states)
            both = [self._left(reading, inside=inside) for reading in readings]
            left, safe = min(left for left, _ in both), min(safe for _, safe in both)
            unmet = min((self._all & ~reading.met).bit_count() for reading in readings)
            self.states.append(State(readings, inside, left, unmet))
            if number == len(self.left):
                self.left = np.concatenate([self.left, np.zeros_like(self.left)])
                self.safe = np.concatenate([self.safe, np.zeros_like(self.safe)])
                self._moves = np.concatenate([self._moves, np.full_like(self._moves, -1)])
            self.left[number], self.safe[number] = left, safe
        return number
