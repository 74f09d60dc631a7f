"""Beams that must hold terms: against every text that there is, and what becomes of terms that cannot be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.beam import Hypothesis
from models.decoding import DecodingOptions, TokenRules, decode
from models.interface import Prompt
from models.terms import Terms, beam_for
from models.tokenizer.word_parts import WordParts
from tests.models import tiny
from tests.models.decoders import EOS, NO_END, PROMPT, RULES, decoder_of, one, options, same
from tests.models.scripted import Scripted

Required = tuple[tuple[tuple[int, ...], ...], ...]
A, B, C = 3, 4, 5


def parts(continues: Sequence[int], open_: Sequence[int], size: int = 6) -> WordParts:
    flags = np.zeros((2, size), dtype=bool)
    flags[0, list(continues)], flags[1, list(open_)] = True, True
    return WordParts(*flags)


NO_PARTS = parts((), ())
SOME = parts((B, C), (A, B))  # b and c go on with a word that ends in a or b


def holds(tokens: Sequence[int], required: Required, words: WordParts = NO_PARTS, taken: frozenset[int] = frozenset()):  # type: ignore[no-untyped-def]
    """By trying everything: each term at a place of its own, where no word goes on into it or out of it."""
    if not required:
        return True
    for run in required[0]:
        for start in range(len(tokens) - len(run) + 1):
            end, places = start + len(run), frozenset(range(start, start + len(run)))
            if tuple(tokens[start:end]) != run or places & taken:
                continue
            before = start > 0 and words.join(tokens[start - 1], tokens[start])
            behind = end < len(tokens) and words.join(tokens[end - 1], tokens[end])
            if not before and not behind and holds(tokens, required[1:], words, taken | places):
                return True
    return False


runs = st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3).map(tuple)
terms = st.lists(st.lists(runs, min_size=1, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple)
texts = st.lists(st.sampled_from([A, B, C, 0]), max_size=9)


@given(terms, texts, st.sampled_from([NO_PARTS, SOME, parts((A, B, C), (A, B, C))]))
@settings(max_examples=500)
def test_a_text_is_read_as_everything_tried_reads_it(required: Required, text: list[int], words: WordParts) -> None:
    automaton = Terms(required, words)
    state = automaton.states[automaton.read(text)]
    assert (state.left == 0) == holds(text, required, words)
    assert (state.unmet == 0) == (state.left == 0)
    assert state.left <= state.safe
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
@settings(max_examples=300)
def test_what_is_left_is_no_more_and_no_less_than_said(required: Required, text: list[int], words: WordParts) -> None:
    """Useful tokens lead there: within `safe` tokens of any kind, and in fewer than `left` nothing does."""
    automaton = Terms(required, words)
    reached, steps = {automaton.read(text)}, 0
    first = automaton.states[next(iter(reached))]
    while all(automaton.states[state].left for state in reached):
        reached = {after(automaton, s, token) for s in reached for token in (*automaton.states[s].useful, 0)}
        steps += 1
    assert first.left <= steps <= first.safe


def after(automaton: Terms, state: int, token: int) -> int:
    return int(automaton.after(np.array([state]), np.array([token]))[0])


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


@pytest.mark.parametrize("words", [NO_PARTS, SOME], ids=["tokens", "words"])
@pytest.mark.parametrize("required", TERMS, ids=str)
def test_a_wide_beam_finds_the_best_that_holds_everything(required: Required, words: WordParts) -> None:
    for seed, penalty in itertools.product(range(2), (0.0, 1.0)):
        network, prompt = Scripted(6, seed=seed), Prompt((5,), (1,))
        expected = best(network, prompt, 5, required, penalty, words)
        chosen = options(max_new_tokens=5, beam=90, n_best=10, length_penalty=penalty, required=required)
        found = decode(network, RULES, [prompt], chosen, slots=90, parts=words)[0]
        if expected:
            same([each for each in found if each.finished], expected)
            assert all(each.unmet == 0 for each in found if each.finished)
        else:
            assert all(each.unmet and not each.finished for each in found)


@given(terms, st.integers(0, 50), st.integers(2, 4), st.integers(0, 4), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_narrow_beam_holds_everything_for_which_there_is_room(
    required: Required, seed: int, width: int, spare: int, forced_end: bool, shares: bool
) -> None:
    network, prompt = Scripted(6, seed=seed, spread=3.0), Prompt((), (1,))
    rules = TokenRules(EOS, RULES.suppressed, renormalise=not shares, forced_end=forced_end)
    needed = sum(min(map(len, term)) for term in required)
    chosen = options(max_new_tokens=needed + 1 + spare, beam=width, n_best=width, required=required)
    (first, *others) = decode(network, rules, [prompt], chosen)[0]
    assert holds(first.tokens, required)
    assert (first.unmet, first.finished or forced_end) == (0, True)
    for each in (first, *others):
        assert not each.finished or holds(each.tokens, required)
        assert (each.unmet == 0) == holds(each.tokens, required)
        assert len(each.tokens) + 1 <= needed + 1 + spare or not each.finished


@given(terms, st.integers(0, 50), st.integers(2, 4))
@settings(max_examples=50, deadline=None)
def test_terms_in_texts_that_never_end(required: Required, seed: int, width: int) -> None:
    needed = sum(min(map(len, term)) for term in required)
    chosen = options(max_new_tokens=needed, beam=width, required=required)
    (found,) = one(Scripted(6, seed=seed), Prompt((), (1,)), chosen, NO_END)
    assert holds(found.tokens, required)
    assert (len(found.tokens), found.finished, found.unmet) == (needed, False, 0)


@pytest.mark.parametrize("forced_end", [False, True])
def test_a_term_longer_than_the_limit_is_told_of(forced_end: bool) -> None:
    rules = TokenRules(EOS, (0, 1), forced_end=forced_end)
    for limit in (1, 3, 4):
        chosen = options(max_new_tokens=limit, beam=3, required=(((A, B, C, A),), ((C,),)))
        (found,) = one(Scripted(6), PROMPT, chosen, rules)
        assert (len(found.tokens), found.finished) == (limit - forced_end, False)
        assert found.unmet == (2 if found.tokens.count(C) < 1 else 1)
        assert not holds(found.tokens, chosen.required)


def test_what_stands_in_the_prefix_is_there() -> None:
    network, prompt = Scripted(6, seed=3), Prompt((5,), (1, A, B))
    plain = one(network, prompt, options(beam=3, n_best=3))
    same(
        one(network, prompt, options(beam=20, n_best=3, required=(((A, B),),))),
        one(network, prompt, options(beam=20, n_best=3)),
    )
    (found,) = one(network, Prompt((5,), (1, A)), options(beam=3, required=(((A, B), (C, C, C)),)))
    assert holds((A, *found.tokens), (((A, B), (C, C, C)),))
    assert plain


def test_a_term_is_not_a_part_of_a_word() -> None:
    """The likeliest texts have b behind a, which makes one word of them."""
    table = {(1,): [0, 0, 0, 9, 0, 0], (1, A): [0, 0, 5, 0, 9, 0], (1, A, B): [0, 0, 9, 0, 0, 0]}
    network, chosen = Scripted(6, table=table), options(beam=4, length_penalty=0.0, required=(((A,),),))
    (glued,) = decode(network, RULES, [Prompt((), (1,))], chosen)[0]
    assert glued.tokens == (A, B)
    (whole,) = decode(network, RULES, [Prompt((), (1,))], chosen, parts=SOME)[0]
    assert whole.tokens == (A,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beam": 1, "required": (((A,),),)}, "required terms need a beam: use one of 2 or more."),
        ({"required": ((),)}, "a required term needs at least one run of tokens, of one or more."),
        ({"required": (((A,), ()),)}, "a required term needs at least one run of tokens, of one or more."),
        ({"required": (((-1,),),)}, "a required term has a negative token."),
        ({"required": (((A,),),) * 65}, "at most 64 terms can be required, not 65."),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        DecodingOptions(**{"max_new_tokens": 9, "beam": 4, **given})
    assert str(caught.value) == message


@pytest.mark.parametrize("run", [(EOS,), (A, EOS), (1, A), (A, 0, B)])
def test_a_term_that_can_never_come_is_refused_and_nobody_is_hurt(run: tuple[int, ...]) -> None:
    decoder = decoder_of(Scripted(6), 8)
    decoder.join([("there", PROMPT, options(beam=2))])
    with pytest.raises(ValueError, match=r"A required term \([\d, ]+\) holds an end token or one that is never chosen"):
        decoder.join([("bad", PROMPT, options(beam=4, required=(((B,),), (run,))))])
    assert (decoder.free, set(decoder.searches)) == (6, {"there"})
    decoder.join([("good", PROMPT, options(beam=4, required=((run, (B,)),)))])  # by its other run
    done: dict[Any, Any] = {}
    while decoder.searches:
        done.update(decoder.step().finished)
    assert B in done["good"][0].tokens
    same(done["there"], one(Scripted(6), PROMPT, options(beam=2)))


def test_a_token_that_no_vocabulary_has_is_missing_in_the_end() -> None:
    (found,) = one(Scripted(6), PROMPT, options(beam=3, required=(((99,),), ((B,),))))
    assert (found.finished, found.unmet, B in found.tokens) == (False, 1, True)


KINDS: list[dict[str, Any]] = [
    {},
    {"beam": 3, "n_best": 2},
    {"beam": 3, "n_best": 2, "required": (((A, B),),)},
    {"temperature": 0.9, "seed": 3},
    {"beam": 4, "required": (((A,),), ((C, B), (B, B))), "no_repeat_ngram_size": 3},
    {"beam": 4, "length_penalty": 0.4},
    {"beam": 2, "required": (((C,),), ((C,),))},
]


@pytest.mark.parametrize("slots", [4, 9, 64])
def test_company_changes_nobody(slots: int) -> None:
    network = Scripted(7, spread=1.5)
    prompts = [Prompt((n % 5,), (1,)) for n in range(35)]
    each = [options(max_new_tokens=7, **KINDS[n % len(KINDS)]) for n in range(35)]
    together = decode(network, RULES, prompts, each, slots=slots)
    for found, prompt, chosen in zip(together, prompts, each, strict=True):
        same(found, one(network, prompt, chosen))


def test_leaving_in_the_middle_leaves_nothing() -> None:
    network = Scripted(7)
    decoder = decoder_of(network, 12)
    chosen = {
        n: options(max_new_tokens=8, beam=3, **({"required": (((A, n + 3),),)} if n % 2 else {})) for n in range(4)
    }
    decoder.join([(n, PROMPT, each) for n, each in chosen.items()])
    decoder.step()
    decoder.leave(1)
    decoder.step()
    decoder.leave(0)
    decoder.join([(5, PROMPT, chosen[1]), (6, PROMPT, chosen[0])])
    done: dict[Any, Any] = {}
    while decoder.searches:
        done.update(decoder.step().finished)
    for key, as_ in ((2, 2), (3, 3), (5, 1), (6, 0)):
        same(done[key], one(network, PROMPT, chosen[as_]))
    assert not decoder.beams


def test_a_stream_is_the_beginning_of_the_answer() -> None:
    network = Scripted(8, spread=3.0)
    for seed in range(8):
        decoder = decoder_of(network, 4, target_length=20)
        decoder.join([("it", Prompt((seed,), (1,)), options(max_new_tokens=16, beam=4, required=(((A, B),), ((C,),))))])
        told: list[int] = []
        done: list[Hypothesis] = []
        while decoder.searches:
            progress = decoder.step()
            told += [token for _, token in progress.tokens]
            done += [each for _, found in progress.finished for each in found]
        assert done[0].tokens[: len(told)] == tuple(told)
        assert holds(done[0].tokens, (((A, B),), ((C,),)))


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_translator_writes_terms_of_unlikely_tokens(precision: Any) -> None:
    network = tiny.transformer()
    required: Required = (((7, 9),), ((11,), (12, 13)))
    for n in range(6):
        chosen = options(max_new_tokens=12, beam=5, required=required)
        (found,) = decode(network, RULES, [Prompt((3 + n, 4, 5), (1,))], chosen, precision=precision)[0]
        assert holds(found.tokens, required)
        assert found.unmet == 0


def test_a_beam_grows_with_its_terms() -> None:
    assert beam_for((), 4) == 4
    assert beam_for((((A, B), (C,)),), 4) == 5
    assert beam_for((((A, B, C),), ((A, B),)), 4) == 8
    assert math.isfinite(beam_for((((A,),),), 1))
