"""The loop against brute force, on a network whose every answer is known."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.beam import Hypothesis
from models.decoding import Decoder, DecodingOptions, Progress, TokenRules, decode
from models.interface import Prompt
from tests.models.scripted import Scripted
from tests.models.test_sampling import number_of

EOS = 2
RULES = TokenRules(EOS, (0, 1))
PROMPT = Prompt((5, 6), (1,))
NO_END = TokenRules(None)


def options(**given: Any) -> DecodingOptions:
    return DecodingOptions(**{"max_new_tokens": 5, **given})


def one(network: Scripted, prompt: Prompt, chosen: DecodingOptions, rules: TokenRules = RULES) -> list[Hypothesis]:
    return decode(network, rules, [prompt], chosen)[0]


def run(decoder: Decoder) -> Progress:
    """Steps until all are done; all that happened."""
    whole = Progress()
    while decoder.searches:
        progress = decoder.step()
        whole.tokens += progress.tokens
        whole.finished += progress.finished
    return whole


def decoder_of(network: Scripted, slots: int, rules: TokenRules = RULES, **lengths: int) -> Decoder:
    return Decoder(network, rules, **{"slots": slots, "source_length": 8, "target_length": 12, **lengths})


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in expected]
    for a, b in zip(found, expected, strict=True):
        assert (a.log_probability, a.score) == pytest.approx((b.log_probability, b.score), abs=1e-5)


# Options ------------------------------------------------------------------------------------------------


def test_options_list_all_their_problems() -> None:
    with pytest.raises(ValueError) as caught:
        options(max_new_tokens=0, beam=0, n_best=3, top_k=-1, top_p=0, length_penalty=math.inf)
    assert str(caught.value) == (
        "max_new_tokens must be at least 1, not 0; beam must be at least 1, not 0; "
        "n_best must lie in 1..beam, not 3; length_penalty must lie in -10..10, not inf; "
        "top_k must be at least 0, not -1; top_p must lie in (0, 1], not 0."
    )
    with pytest.raises(ValueError, match=r"^temperature must be 0 or a positive number, not -1\.$"):
        options(temperature=-1)
    with pytest.raises(ValueError, match="a beam does not draw"):
        options(beam=2, temperature=0.5)


@pytest.mark.parametrize("name", ["temperature", "top_p", "length_penalty"])
def test_options_refuse_nan(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must"):
        options(**{name: math.nan})


# Greedy and sampling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_greedy_is_the_chain_of_likeliest_tokens(seed: int) -> None:
    network = Scripted(7, seed=seed)
    tokens: list[int] = []
    total, ended = 0.0, False
    while len(tokens) < 8 and not ended:
        line = network.log_probabilities(PROMPT, tokens, RULES.suppressed)
        best = max(range(7), key=line.__getitem__)
        total += line[best]
        ended = best == EOS
        tokens += [] if ended else [best]
    count = len(tokens) + ended
    same(
        one(network, PROMPT, options(max_new_tokens=8, length_penalty=0.6)),
        [Hypothesis(tuple(tokens), total, total / count**0.6, ended)],
    )


@pytest.mark.parametrize("seed", range(6))
def test_sampling_inverts_the_distribution_at_its_counter(seed: int) -> None:
    network, tokens, total, ended = Scripted(7, seed=seed), list[int](), 0.0, False
    for position in range(6):
        line = network.log_probabilities(PROMPT, tokens, RULES.suppressed)
        weights = [(math.exp(p / 0.8), t) for t, p in enumerate(line)]  # nothing is cut: in the order of the tokens
        left = number_of(seed + 70, position) * sum(w for w, _ in weights)
        passed = [sum(w for w, _ in weights[: i + 1]) for i in range(len(weights))]
        token = next(t for (_, t), total_weight in zip(weights, passed, strict=True) if total_weight > left)
        total += line[token]
        if token == EOS:
            ended = True
            break
        tokens.append(token)
    count = len(tokens) + ended
    same(
        one(network, PROMPT, options(max_new_tokens=6, temperature=0.8, seed=seed + 70)),
        [Hypothesis(tuple(tokens), total, total / count, ended)],
    )


def test_a_seed_decides() -> None:
    network = Scripted(30, spread=0.3)
    found = [one(network, PROMPT, options(temperature=1.0, seed=seed))[0].tokens for seed in (1, 1, 2, 3)]
    assert found[0] == found[1]
    assert len(set(found)) == 3


@pytest.mark.parametrize(
    "chosen", [options(), options(beam=2), options(temperature=1.0)], ids=["greedy", "beam", "draw"]
)
def test_the_end_token_may_come_first(chosen: DecodingOptions) -> None:
    network = Scripted(5, table={(1,): [0, 0, 50, 0, 0]})
    (best, *_) = one(network, PROMPT, chosen)
    assert (best.tokens, best.finished) == ((), True)
    assert best.log_probability == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("chosen", [{}, {"beam": 3}, {"temperature": 2.0}], ids=["greedy", "beam", "draw"])
def test_one_token_at_most(chosen: dict[str, Any]) -> None:
    network = Scripted(6, table={(1,): [9, 9, -50, 3, 2, 1]})
    (best, *_) = one(network, PROMPT, options(max_new_tokens=1, **chosen))
    assert (len(best.tokens), best.finished) == (1, False)
    assert best.log_probability == pytest.approx(network.score(PROMPT, best.tokens, RULES.suppressed), abs=1e-6)


@pytest.mark.parametrize("chosen", [{}, {"beam": 3}, {"temperature": 1.0}], ids=["greedy", "beam", "draw"])
def test_without_an_end_token_the_limit_decides(chosen: dict[str, Any]) -> None:
    (best, *_) = one(Scripted(5), Prompt((), (3, 4)), options(max_new_tokens=9, **chosen), NO_END)
    assert (len(best.tokens), best.finished) == (9, False)
    assert best.score == pytest.approx(best.log_probability / 9)


@pytest.mark.parametrize("chosen", [{}, {"beam": 4, "n_best": 4}, {"temperature": 3.0}], ids=["greedy", "beam", "draw"])
def test_suppressed_tokens_are_never_chosen(chosen: dict[str, Any]) -> None:
    network, rules = Scripted(6, spread=4.0), TokenRules(EOS, (0, 1, 4))
    prompts = [Prompt((n,), (1,)) for n in range(20)]
    for found in decode(network, rules, prompts, options(max_new_tokens=8, **chosen)):
        for hypothesis in found:
            assert not {0, 1, 2, 4} & set(hypothesis.tokens)


def test_only_the_end_is_allowed() -> None:
    rules = TokenRules(EOS, (0, 1, 3, 4))
    for chosen in (options(), options(beam=3, n_best=3, max_new_tokens=500), options(temperature=1.0)):
        network = Scripted(5)
        assert [(h.tokens, h.log_probability) for h in one(network, PROMPT, chosen, rules)] == [((), 0.0)]
        assert len(network.widths) == 1, "and nothing is stepped when nothing can follow"


# Beam ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_is_brute_force(seed: int, penalty: float) -> None:
    """Three tokens to choose from and an end, four steps: 81 rows hold them all."""
    network, prompt = Scripted(6, seed=seed), Prompt((5,), (1, 4))
    everything = [
        Hypothesis(tokens, total, total / (len(tokens) + 1) ** penalty, True)
        for tokens, total, ended in network.everything(prompt, 4, EOS, RULES.suppressed)
        if ended
    ]
    assert len(everything) == 1 + 3 + 9 + 27
    expected = sorted(everything, key=lambda h: -h.score)[:10]
    same(one(network, prompt, options(max_new_tokens=4, beam=81, n_best=10, length_penalty=penalty)), expected)


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_without_ends_is_brute_force(seed: int) -> None:
    network, prompt = Scripted(3, seed=seed), Prompt((), (1, 2))
    everything = [(total, tokens) for tokens, total, _ in network.everything(prompt, 4, None)]
    assert len(everything) == 81
    found = one(network, prompt, options(max_new_tokens=4, beam=81, n_best=81), NO_END)
    assert [h.tokens for h in found] == [tokens for _, tokens in sorted(everything, reverse=True)]
    assert not any(h.finished for h in found)
    assert sum(math.exp(h.log_probability) for h in found) == pytest.approx(1, abs=1e-5)


def beam_by_hand(network: Scripted, prompt: Prompt, width: int, limit: int, penalty: float) -> list[Hypothesis]:
    """Beam search once more, with lists of whole sequences and nothing to keep in step."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[Hypothesis] = []
    for length in range(1, limit + 1):
        grown = sorted(
            (
                (total + gain, [*tokens, token])
                for total, tokens in live
                for token, gain in enumerate(network.log_probabilities(prompt, tokens, RULES.suppressed))
                if gain > -math.inf
            ),
            key=lambda pair: -pair[0],
        )[: 2 * width]
        ended += [
            Hypothesis(tuple(tokens[:-1]), total, total / length**penalty, True)
            for total, tokens in grown[:width]
            if tokens[-1] == EOS
        ]
        ended = sorted(ended, key=lambda h: -h.score)[:width]
        live = [(total, tokens) for total, tokens in grown if tokens[-1] != EOS][:width]
        if len(ended) == width and live[0][0] / length**penalty <= ended[-1].score:
            break
    cut = [Hypothesis(tuple(tokens), total, total / limit**penalty, False) for total, tokens in live]
    return ended or cut


@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_a_narrow_beam_keeps_its_rows_in_step(seed: int, width: int) -> None:
    network, prompt = Scripted(9, seed=seed, spread=1.2), Prompt((5, seed), (1,))
    found = one(network, prompt, options(max_new_tokens=7, beam=width, n_best=width, length_penalty=0.8))
    same(found, beam_by_hand(network, prompt, width, 7, 0.8))
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    for hypothesis in found:
        tokens = [*hypothesis.tokens, *([EOS] if hypothesis.finished else [])]
        assert hypothesis.log_probability == pytest.approx(network.score(prompt, tokens, RULES.suppressed), abs=1e-5)
        assert hypothesis.score == pytest.approx(hypothesis.log_probability / len(tokens) ** 0.8)


def test_a_beam_wider_than_the_vocabulary() -> None:
    found = one(Scripted(3), Prompt((), (1,)), options(max_new_tokens=2, beam=8, n_best=8), TokenRules(2))
    # a and b, then each with a, b or an end; and an end at once
    assert {h.tokens for h in found} == {(), (0,), (1,)}
    assert all(h.finished for h in found)


# Batches ------------------------------------------------------------------------------------------------

KINDS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.9, "seed": 3},
    {"beam": 3, "n_best": 2},
    {"temperature": 1.5, "top_k": 3, "top_p": 0.9, "seed": 8},
    {"beam": 2, "length_penalty": 0.3},
    {"max_new_tokens": 1},
    {"beam": 5, "n_best": 5, "max_new_tokens": 9},
]


def mixed(count: int) -> tuple[list[Prompt], list[DecodingOptions]]:
    prompts = [Prompt(tuple(range(3, 4 + n % 5)), (1, *[4] * (n % 3))) for n in range(count)]
    return prompts, [options(**KINDS[n % len(KINDS)]) for n in range(count)]


@pytest.mark.parametrize("slots", [1, 5, 6, 13, 64])
def test_mixed_requests_are_those_alone_whatever_the_slots(slots: int) -> None:
    network = Scripted(8)
    prompts, chosen = mixed(21)
    together = decode(network, RULES, prompts, chosen, slots=slots)
    assert max(network.widths) <= max(slots, 5)
    for found, prompt, each in zip(together, prompts, chosen, strict=True):
        same(found, one(network, prompt, each))


@given(st.lists(st.tuples(st.sampled_from(["join", "step", "step", "leave"]), st.integers(0, 5)), max_size=40))
@settings(max_examples=60)
def test_join_and_leave_at_any_time(actions: list[tuple[str, int]]) -> None:
    """However requests come and go, those that stay get what they would have got alone."""
    network = Scripted(8, seed=1)
    decoder = decoder_of(network, 9)
    prompts, chosen = mixed(14)
    waiting, streamed = list(range(14)), dict[object, list[int]]()
    finished: dict[object, list[Hypothesis]] = {}
    left = set()
    for action, number in [*actions, *[("step", 0)] * 10]:
        if action == "join":
            batch = waiting[: 1 + number // 2]
            while sum(chosen[n].beam for n in batch) > decoder.free:
                batch.pop()
            decoder.join([(n, prompts[n], chosen[n]) for n in batch])
            waiting = [n for n in waiting if n not in batch]
        elif action == "leave" and decoder.searches:
            key = list(decoder.searches)[number % len(decoder.searches)]
            decoder.leave(key)
            left.add(key)
        else:
            progress = decoder.step()
            for key, token in progress.tokens:
                streamed.setdefault(key, []).append(token)
            finished.update(progress.finished)
        check_rows(decoder)
    assert not decoder.searches, "ten steps finish everything"
    assert set(finished) == set(range(14)) - set(waiting) - left
    for key, found in finished.items():
        assert isinstance(key, int)
        same(found, one(network, prompts[key], chosen[key]))
        told = tuple(streamed.get(key, []))
        assert told == (found[0].tokens if chosen[key].beam == 1 else found[0].tokens[: len(told)])


def check_rows(decoder: Decoder) -> None:
    """Live rows are packed, and owner and owned agree."""
    assert decoder.free == decoder.slots - sum(s.options.beam for s in decoder.searches.values())
    assert sorted(row for s in decoder.searches.values() for row in s.rows) == list(range(len(decoder.owners)))
    for search in decoder.searches.values():
        assert all(decoder.owners[row] is search for row in search.rows)


def test_a_step_without_requests_is_nothing() -> None:
    network = Scripted(5)
    decoder = decoder_of(network, 3)
    decoder.join([])
    assert decoder.step() == Progress()
    assert network.widths == []
    assert decode(network, RULES, [], options()) == []


def test_leavers_free_their_rows_at_once() -> None:
    network = Scripted(8)
    decoder = decoder_of(network, 6)
    decoder.join([("a", PROMPT, options()), ("b", PROMPT, options(beam=3)), ("c", PROMPT, options())])
    assert decoder.free == 1
    decoder.leave("b")
    decoder.leave("b")
    decoder.leave("never there")
    assert decoder.free == 4
    decoder.step()
    assert network.widths == [2]
    check_rows(decoder)


def test_a_request_that_does_not_fit_is_refused_before_anything_changes() -> None:
    network = Scripted(8)
    decoder = decoder_of(network, 4, source_length=3, target_length=6)
    decoder.join([("a", PROMPT, options())])
    fits = Prompt((3, 4, 5), (1, 4))
    for bad in (
        (Prompt((3, 4, 5, 6), (1,)), options()),
        (Prompt((3,), (1, 4, 4)), options()),
        (Prompt((3,), (1,)), options(max_new_tokens=7)),
        (Prompt((3,), ()), options()),
    ):
        with pytest.raises(ValueError, match=r"does not fit slots of 3 and 6|prefix is empty"):
            decoder.join([("b", fits, options()), ("c", *bad)])
        assert decoder.free == 3
    with pytest.raises(AssertionError, match="more rows than slots"):
        decoder.join([("b", fits, options(beam=4))])
    with pytest.raises(AssertionError, match="two requests under one key"):
        decoder.join([("a", fits, options())])
    check_rows(decoder)
    decoder.join([("b", fits, options()), ("c", fits, options(beam=2))])
    finished = dict(run(decoder).finished)
    same(finished["a"], one(network, PROMPT, options()))
    same(finished["b"], one(network, fits, options()))
    same(finished["c"], one(network, fits, options(beam=2)))


def test_a_failed_prefill_leaves_the_others_alone() -> None:
    network = Scripted(8, poison=7)
    decoder = decoder_of(network, 6)
    decoder.join([("a", PROMPT, options(beam=2))])
    decoder.step()
    with pytest.raises(RuntimeError, match="poisoned"):
        decoder.join([("b", PROMPT, options()), ("c", Prompt((7,), (1,)), options(beam=2))])
    assert decoder.free == 4
    assert set(decoder.searches) == {"a"}
    decoder.join([("b", PROMPT, options())])
    check_rows(decoder)
    finished = dict(run(decoder).finished)
    same(finished["a"], one(network, PROMPT, options(beam=2)))
    same(finished["b"], one(network, PROMPT, options()))


def test_long_sources_go_first_and_freed_rows_are_filled() -> None:
    network = Scripted(4, table={})
    prompts = [Prompt((3,) * n, (1,)) for n in (1, 6, 3, 5, 2, 4)]
    found = decode(network, NO_END, prompts, [options(max_new_tokens=n + 1) for n in range(6)], slots=2)
    assert [len(each[0].tokens) for each in found] == [1, 2, 3, 4, 5, 6]
    assert sum(network.widths) == 21, "no row is stepped in vain"
    assert network.source_length == 6


@pytest.mark.parametrize("streamed", [True, False])
def test_a_stream_joins_to_the_answer_and_of_a_beam_to_its_beginning(streamed: bool) -> None:
    network = Scripted(9, spread=3.0)
    decoder = decoder_of(network, 64, target_length=24)
    kinds: list[dict[str, Any]] = [{}, {"temperature": 0.8, "seed": 4}, {"beam": 3}, {"beam": 2, "length_penalty": 0.2}]
    chosen = [options(max_new_tokens=20, streamed=streamed, **kinds[n % 4]) for n in range(24)]
    decoder.join([(n, Prompt((n % 7, n % 5), (1,)), each) for n, each in enumerate(chosen)])
    told: dict[Any, list[int]] = {n: [] for n in range(24)}
    early = set()
    while decoder.searches:
        progress = decoder.step()
        done = dict(progress.finished)
        for key, token in progress.tokens:
            told[key].append(token)
            early |= {key} - done.keys()
        for key, (best, *_) in done.items():
            assert isinstance(key, int)
            if chosen[key].beam == 1:
                assert tuple(told[key]) == (best.tokens if streamed else ())
            else:
                assert tuple(told[key]) == best.tokens[: len(told[key])]
    beams = {n for n, each in enumerate(chosen) if each.beam > 1}
    assert len(early & beams) > 5 if streamed else not early
