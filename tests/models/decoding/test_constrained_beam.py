"""Beams that must hold terms: against every text that there is, and where there is but little room."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.decoding.decoder import decode
from models.decoding.options import Hypothesis, TokenRules
from models.interface import Prompt
from models.tokenizer.word_parts import WordParts
from tests.models.decoding.decoders import EOS, NO_END, PROMPT, RULES, one, options, same
from tests.models.decoding.required_terms import NO_PARTS, SOME, A, B, C, Required, holds, parts, terms
from tests.models.scripted import Scripted

flags = st.lists(st.sampled_from([A, B, C, 6]), unique=True)


def best(
    network: Scripted, prompt: Prompt, limit: int, required: Required, penalty: float, words: WordParts
) -> list[Hypothesis]:
    everything = [
        Hypothesis(tokens, total, total / (len(tokens) + 1) ** penalty, True)
        for tokens, total, ended in network.everything(prompt, limit, EOS, RULES.suppressed)
        if ended and holds(tokens, required, words)
    ]
    return sorted(everything, key=lambda h: -h.score)[:10]


TERMS: list[Required] = [
    (((A,),),),
    (((A, B),),),
    (((A, B), (C, C)),),
    (((A,),), ((B,),)),
    (((A, A),), ((A,),)),  # one in the other: no token serves both
    (((A,),), ((A,),)),
    (((A, B),), ((B, C),)),
    (((A, B, A),),),
    (((A,), (B, B)), ((A, B), (C,))),
    (((A, B, C, A),),),  # just as long as the limit allows
]


@pytest.mark.slow
@pytest.mark.parametrize("words", [NO_PARTS, SOME], ids=["tokens", "words"])
@pytest.mark.parametrize("required", TERMS, ids=str)
def test_wide_beam_finds_the_best_satisfying_hypothesis(required: Required, words: WordParts) -> None:
    for seed, penalty in itertools.product(range(2), (0.0, 1.0)):
        network, prompt = Scripted(6, seed=seed), Prompt((5,), (1,))
        expected = best(network, prompt, 5, required, penalty, words)
        chosen = options(max_new_tokens=5, beam_size=90, n_best=10, length_penalty=penalty, required=required)
        results = decode(network, RULES, [prompt], chosen, slots=90, parts=words)[0]
        if expected:
            same([result for result in results if result.finished], expected)
            assert all(result.unmet == 0 for result in results if result.finished)
        else:
            assert all(result.unmet and not result.finished for result in results)


@given(terms, st.integers(0, 50), st.integers(2, 4), st.integers(0, 4), st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_narrow_beam_satisfies_all_terms_that_fit(
    required: Required, seed: int, width: int, spare: int, forced_end: bool, shares: bool
) -> None:
    network, prompt = Scripted(6, seed=seed, spread=3.0), Prompt((), (1,))
    rules = TokenRules(EOS, RULES.suppressed, renormalise=not shares, forced_end=forced_end)
    needed = sum(min(map(len, term)) for term in required)
    chosen = options(max_new_tokens=needed + 1 + spare, beam_size=width, n_best=width, required=required)
    (first, *others) = decode(network, rules, [prompt], chosen)[0]
    assert holds(first.tokens, required)
    assert (first.unmet, first.finished or forced_end) == (0, True)
    for other in (first, *others):
        assert not other.finished or holds(other.tokens, required)
        assert (other.unmet == 0) == holds(other.tokens, required)
        assert len(other.tokens) + 1 <= needed + 1 + spare or not other.finished


@given(terms, st.integers(0, 10**6), st.integers(2, 4), st.integers(0, 2), flags, flags)
@example((((C,),), ((C,),), ((C, A),)), 297, 2, 0, [C], [A, B, C])  # a token between them that can be continued is none
@settings(max_examples=20, deadline=None)
def test_word_boundaries_between_terms_are_reserved(
    required: Required, seed: int, width: int, spare: int, continues: list[int], open_: list[int]
) -> None:
    words = parts(continues, open_, 8)
    needed = sum(min(len(run) + (run[0] in continues) for run in term) for term in required)
    chosen = options(max_new_tokens=needed + 1 + spare, beam_size=width, required=required)
    (result,) = decode(Scripted(8, seed=seed, spread=3.0), RULES, [Prompt((), (1,))], chosen, parts=words)[0]
    assert holds(result.tokens, required, words)
    assert (result.finished, result.unmet) == (True, 0)


@given(terms, st.integers(0, 50), st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_terms_in_texts_that_never_end(required: Required, seed: int, width: int) -> None:
    needed = sum(min(map(len, term)) for term in required)
    chosen = options(max_new_tokens=needed, beam_size=width, required=required)
    (result,) = one(Scripted(6, seed=seed), Prompt((), (1,)), chosen, NO_END)
    assert holds(result.tokens, required)
    assert (len(result.tokens), result.finished, result.unmet) == (needed, False, 0)


@pytest.mark.parametrize("forced_end", [False, True])
def test_term_longer_than_the_limit_is_reported(forced_end: bool) -> None:
    rules = TokenRules(EOS, (0, 1), forced_end=forced_end)
    for limit in (1, 3, 4):
        chosen = options(max_new_tokens=limit, beam_size=3, required=(((A, B, C, A),), ((C,),)))
        (result,) = one(Scripted(6), PROMPT, chosen, rules)
        assert (len(result.tokens), result.finished) == (limit - forced_end, False)
        assert result.unmet == (2 if result.tokens.count(C) < 1 else 1)
        assert not holds(result.tokens, chosen.required)


def test_terms_of_the_prefix_are_satisfied() -> None:
    network, prompt = Scripted(6, seed=3), Prompt((5,), (1, A, B))
    plain = one(network, prompt, options(beam_size=3, n_best=3))
    same(
        one(network, prompt, options(beam_size=20, n_best=3, required=(((A, B),),))),
        one(network, prompt, options(beam_size=20, n_best=3)),
    )
    (result,) = one(network, Prompt((5,), (1, A)), options(beam_size=3, required=(((A, B), (C, C, C)),)))
    assert holds((A, *result.tokens), (((A, B), (C, C, C)),))
    assert plain


def test_a_term_is_not_a_part_of_a_word() -> None:
    """The likeliest texts have b behind a, which makes one word of them."""
    table = {(1,): [0, 0, 0, 9, 0, 0], (1, A): [0, 0, 5, 0, 9, 0], (1, A, B): [0, 0, 9, 0, 0, 0]}
    network, chosen = Scripted(6, table=table), options(beam_size=4, length_penalty=0.0, required=(((A,),),))
    (glued,) = decode(network, RULES, [Prompt((), (1,))], chosen)[0]
    assert glued.tokens == (A, B)
    (whole,) = decode(network, RULES, [Prompt((), (1,))], chosen, parts=SOME)[0]
    assert whole.tokens == (A,)
