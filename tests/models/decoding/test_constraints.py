"""What reads a text for its terms, against everything tried; how wide a beam gets with them."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.decoding.constraints import TermAutomaton, constrained_beam_size
from models.tokenizer.word_parts import WordParts
from tests.models.decoding.required_terms import NO_PARTS, SOME, A, B, C, Required, holds, parts, terms

texts = st.lists(st.sampled_from([A, B, C, 0]), max_size=9)


@given(terms, texts, st.sampled_from([NO_PARTS, SOME, parts((A, B, C), (A, B, C))]))
@settings(max_examples=48)
def test_constraint_state_equals_exhaustive_search(required: Required, text: list[int], words: WordParts) -> None:
    automaton = TermAutomaton(required, words)
    state = automaton.states[automaton.read(text)]
    assert (state.left == 0) == holds(text, required, words)
    assert (state.unmet == 0) == (state.left == 0)
    assert state.left <= automaton.safe[automaton.read(text)]
    fewest = (
        next(
            n
            for n in range(4)
            for kept in itertools.combinations(required, len(required) - n)
            if holds(text, tuple(kept), words)
        )
        if len(required) <= 3
        else 0
    )
    assert state.unmet <= fewest or state.unmet == fewest


@given(terms, texts, st.sampled_from([NO_PARTS, SOME]))
@settings(max_examples=40)
def test_remaining_constraint_tokens_are_counted(required: Required, text: list[int], words: WordParts) -> None:
    """Useful tokens lead there: within `safe` tokens of any kind, and in fewer than `left` nothing does."""
    automaton = TermAutomaton(required, words)
    reached, steps = {automaton.read(text)}, 0
    (first,) = reached
    while all(automaton.states[state].left for state in reached):
        reached = {after(automaton, s, token) for s in reached for token in (*automaton.useful(s), 0)}
        steps += 1
    assert automaton.left[first] <= steps <= automaton.safe[first]


def after(automaton: TermAutomaton, state: int, token: int) -> int:
    return int(automaton.after(np.array([state]), np.array([token]))[0])


def test_a_beam_grows_with_its_terms() -> None:
    assert constrained_beam_size((), 4) == 4
    assert constrained_beam_size((((A, B), (C,)),), 4) == 5
    assert constrained_beam_size((((A, B, C),), ((A, B),)), 4) == 8
    assert math.isfinite(constrained_beam_size((((A,),),), 1))
