"""Greedy decoding and sampling against brute force, on a network with scripted logits."""

from __future__ import annotations

import math
from typing import Any

import pytest

from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Prompt
from tests.models.decoding.decoders import EOS, NO_END, PROMPT, RULES, one, options, same
from tests.models.decoding.draws import number_of
from tests.models.scripted import Scripted


def test_options_list_all_their_problems() -> None:
    with pytest.raises(ValueError) as excinfo:
        options(max_new_tokens=0, beam_size=0, n_best=3, top_k=-1, top_p=0, length_penalty=math.inf)
    assert str(excinfo.value) == (
        "max_new_tokens must be at least 1, not 0; beam_size must be at least 1, not 0; "
        "length_penalty must lie in -10..10, not inf; top_k must be at least 0, not -1; "
        "top_p must lie in (0, 1], not 0; n_best must lie in 1..beam_size, not 3."
    )
    with pytest.raises(ValueError, match=r"^temperature must lie in 0\.\.1e\+06, not -1\.$"):
        options(temperature=-1)
    with pytest.raises(ValueError, match="a beam does not draw"):
        options(beam_size=2, temperature=0.5)


@pytest.mark.parametrize("name", ["temperature", "top_p", "length_penalty"])
def test_options_refuse_nan(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must"):
        options(**{name: math.nan})


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


def test_same_seed_gives_the_same_text() -> None:
    network = Scripted(30, spread=0.3)
    results = [one(network, PROMPT, options(temperature=1.0, seed=seed))[0].tokens for seed in (1, 1, 2, 3)]
    assert results[0] == results[1]
    assert len(set(results)) == 3


@pytest.mark.parametrize(
    "chosen", [options(), options(beam_size=2), options(temperature=1.0)], ids=["greedy", "beam", "draw"]
)
def test_the_end_token_may_come_first(chosen: DecodingOptions) -> None:
    network = Scripted(5, table={(1,): [0, 0, 50, 0, 0]})
    (best, *_) = one(network, PROMPT, chosen)
    assert (best.tokens, best.finished) == ((), True)
    assert best.log_probability == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("chosen", [{}, {"beam_size": 3}, {"temperature": 2.0}], ids=["greedy", "beam", "draw"])
def test_one_token_at_most(chosen: dict[str, Any]) -> None:
    network = Scripted(6, table={(1,): [9, 9, -50, 3, 2, 1]})
    (best, *_) = one(network, PROMPT, options(max_new_tokens=1, **chosen))
    assert (len(best.tokens), best.finished) == (1, False)
    assert best.log_probability == pytest.approx(network.score(PROMPT, best.tokens, RULES.suppressed), abs=1e-6)


@pytest.mark.parametrize("chosen", [{}, {"beam_size": 3}, {"temperature": 1.0}], ids=["greedy", "beam", "draw"])
def test_without_an_end_token_the_limit_decides(chosen: dict[str, Any]) -> None:
    (best, *_) = one(Scripted(5), Prompt((), (3, 4)), options(max_new_tokens=9, **chosen), NO_END)
    assert (len(best.tokens), best.finished) == (9, False)
    assert best.score == pytest.approx(best.log_probability / 9)


@pytest.mark.parametrize(
    "chosen", [{}, {"beam_size": 4, "n_best": 4}, {"temperature": 3.0}], ids=["greedy", "beam", "draw"]
)
def test_suppressed_tokens_are_never_chosen(chosen: dict[str, Any]) -> None:
    network, rules = Scripted(6, spread=4.0), TokenRules(EOS, (0, 1, 4))
    prompts = [Prompt((n,), (1,)) for n in range(20)]
    for results in decode(network, rules, prompts, options(max_new_tokens=8, **chosen)):
        for hypothesis in results:
            assert not {0, 1, 2, 4} & set(hypothesis.tokens)


def test_text_ends_when_only_the_end_token_is_allowed() -> None:
    rules = TokenRules(EOS, (0, 1, 3, 4))
    for chosen in (options(), options(beam_size=3, n_best=3, max_new_tokens=500), options(temperature=1.0)):
        network = Scripted(5)
        assert [(h.tokens, h.log_probability) for h in one(network, PROMPT, chosen, rules)] == [((), 0.0)]
        assert len(network.widths) == 1, "and nothing is stepped when nothing can follow"
