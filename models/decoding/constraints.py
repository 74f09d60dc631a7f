"""Tracks which required terms a text holds, with an automaton whose states are built on demand.

One token never serves two terms, a term that was begun may be abandoned, and which tokens serve which term stays open
until it matters. A state is therefore a set of possible readings of the text, without dominated ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.decoding.options import MAX_REQUIRED_TERMS
from models.tokenizer.word_parts import WordParts

RequiredTerms = Sequence[Sequence[Sequence[int]]]  # terms; a term is a list of alternative token runs
Ints = npt.NDArray[np.int64]
TOKEN_KINDS = 4  # whether a token continues a word, times whether it can be continued
TERMS_LENGTH_PENALTY = 0.5  # below the usual 1, which pads texts out: the cost of terms weighs less in longer texts
MAX_READINGS = 32  # per state; readings furthest from completion are dropped first


def constrained_beam_size(required: RequiredTerms, beam: int) -> int:
    """The width at which search with terms is as good as at `beam` without: every degree of completion takes room."""
    steps = sum(min(map(len, term)) for term in required)
    return beam + min(steps, beam) if required else beam


class Reading(NamedTuple):
    """One way to read a text. met: bit mask of completed terms. run: the one in progress, `written` of its tokens
    present; term -1: none. open: the last token completed a term, provided that no word continues from there."""

    met: int = 0
    term: int = -1
    run: tuple[int, ...] = ()
    written: int = 0
    open: bool = False


class State(NamedTuple):
    """inside: the last token may be inside a word. left: minimum number of tokens needed. unmet: missing terms."""

    readings: frozenset[Reading]
    inside: bool
    left: int
    unmet: int


class TermAutomaton:
    """The terms of one request. parts: how tokens join into words; None: they do not. States are integers. By state,
    left: the minimum number of tokens needed; safe: a sufficient number, with separators between terms."""

    def __init__(self, required: RequiredTerms, parts: WordParts | None = None) -> None:
        assert len(required) <= MAX_REQUIRED_TERMS
        self.runs = [tuple(dict.fromkeys(tuple(run) for run in term)) for term in required]
        self.parts = parts
        self._all = (1 << len(self.runs)) - 1
        self._least = [min(len(run) for run in term) for term in self.runs]
        self._safe = [min(len(run) + self._continues(run[0]) for run in term) for term in self.runs]
        self._cheaper_at_word_start = 0  # bit mask of terms that take one token less there
        # among equal terms each waits for its predecessor, so that equal readings are not kept twice
        self._predecessors = [0] * len(self.runs)
        seen: dict[frozenset[tuple[int, ...]], int] = {}
        for term, (runs, safe) in enumerate(zip(self.runs, self._safe, strict=True)):
            if safe > min(len(run) for run in runs if len(run) + self._continues(run[0]) == safe):
                self._cheaper_at_word_start |= 1 << term
            self._predecessors[term] = seen.get(frozenset(runs), 0)
            seen[frozenset(runs)] = 1 << term
        # tokens outside the terms differ only in how they join words
        self._named = np.array(sorted({token for term in self.runs for run in term for token in run}), dtype=np.int64)
        self._moves = np.full((8, len(self._named) + TOKEN_KINDS), -1, dtype=np.int32)  # -1: not known yet
        self.left, self.safe = np.zeros(8, dtype=np.int64), np.zeros(8, dtype=np.int64)
        self._beginnings: dict[int, dict[int, list[Reading]]] = {}  # by completed terms
        self._useful: dict[int, dict[int, bool]] = {}  # by state
        self._numbers: dict[tuple[frozenset[Reading], bool], int] = {}
        self.states: list[State] = []
        self.start = self._number(frozenset([Reading()]), False)

    def _continues(self, token: int) -> bool:
        return self.parts is not None and token < len(self.parts.continues) and bool(self.parts.continues[token])

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """The successor states: states [n], tokens [n] -> [n]."""
        places = self._named.searchsorted(tokens)
        named = self._named[places.clip(max=len(self._named) - 1)] == tokens
        kinds = self.parts.kinds.take(tokens, mode="clip") if self.parts is not None else np.zeros_like(tokens)
        columns = np.where(named, places + TOKEN_KINDS, kinds)
        after = self._moves[states, columns]
        if (after < 0).any():
            for place in (after < 0).nonzero()[0].tolist():
                state, column = int(states[place]), columns[place]
                if self._moves[state, column] < 0:
                    number = self._next(self.states[state], int(tokens[place]))  # first: may replace _moves
                    self._moves[state, column] = number
            after = self._moves[states, columns]
        return after.astype(np.int64)

    def read(self, tokens: Sequence[int]) -> int:
        state = self.start
        for token in tokens:
            state = int(self.after(np.array([state]), np.array([token]))[0])
        return state

    def useful(self, number: int) -> dict[int, bool]:
        """Tokens that advance a term in the readings closest to completion -> whether `safe` falls with them."""
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
            elif not (reading.open and same_word):  # otherwise the word goes on and no term ended here
                readings.add(Reading(reading.met))
                if not same_word:
                    readings |= {self._advanced(begun, inside) for begun in self._begins(reading.met).get(token, ())}
        return self._number(frozenset(self._worth_keeping(readings)), inside)

    def _advanced(self, reading: Reading, inside: bool) -> Reading:
        if reading.written + 1 == len(reading.run):
            return Reading(reading.met | 1 << reading.term, open=inside)
        return reading._replace(written=reading.written + 1)

    def _begins(self, met: int) -> dict[int, list[Reading]]:
        """First token -> readings of the runs that may begin when the terms `met` are complete."""
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
            certain = reading.term < 0 and not reading.open  # any continuation stays possible from such a reading
            if (certain or len(kept) < MAX_READINGS) and not any(self._dominates(other, reading) for other in kept):
                kept.append(reading)
        return kept

    def _dominates(self, one: Reading, other: Reading) -> bool:
        """Whether no continuation can bring `other` ahead of `one`."""
        if one.term >= 0:
            same = one.term == other.term and one.run == other.run and one.written == other.written
            return same and one.met | other.met == one.met
        met = other.met | (1 << other.term if other.term >= 0 else 0)
        return one.met | met == one.met and (not one.open or (other.open and other.term < 0))

    def _left(self, reading: Reading, *, inside: bool = True) -> tuple[int, int]:
        """The minimum and a sufficient number of tokens still needed."""
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
