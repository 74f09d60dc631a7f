"""The rules that imported models bring: an end by force, and suppressed tokens that keep their share."""

from __future__ import annotations

import math

import pytest

from models.decoding.options import Hypothesis, TokenRules
from models.interface import Prompt
from tests.models.decoding.decoders import EOS, RULES, decoder_of, one, options, same
from tests.models.scripted import Scripted

FORCED = TokenRules(EOS, RULES.suppressed, forced_end=True)
SHARED = TokenRules(EOS, RULES.suppressed, renormalise=False)
LIMIT = 5


@pytest.mark.every_value
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_hypotheses_at_the_limit_compete_with_ended_ones(seed: int, penalty: float) -> None:
    """Three tokens to choose from and an end: 81 rows hold all that fits, the end token of the limit included."""
    network, prompt = Scripted(6, seed=seed), Prompt((5,), (1, 4))
    everything = [
        Hypothesis(tokens, total, total / (len(tokens) + 1) ** penalty, ended)
        for tokens, total, ended in network.everything(prompt, LIMIT - 1, EOS, RULES.suppressed)
    ]
    assert sum(not h.finished for h in everything) == 81
    expected = sorted(everything, key=lambda h: -h.score)[:10]
    assert {h.finished for h in expected} == {True, False}
    chosen = options(max_new_tokens=LIMIT, beam_size=81, n_best=10, length_penalty=penalty)
    same(one(network, prompt, chosen, FORCED), expected)


@pytest.mark.parametrize("seed", range(6))
def test_a_greedy_text_is_cut_where_its_end_is_forced(seed: int) -> None:
    network, prompt = Scripted(9, seed=seed), Prompt((5,), (1, 4))
    same(
        one(network, prompt, options(max_new_tokens=LIMIT), FORCED),
        [
            Hypothesis(h.tokens, h.log_probability, h.log_probability / (len(h.tokens) + 1), h.finished)
            for h in one(network, prompt, options(max_new_tokens=LIMIT - 1))
        ],
    )


@pytest.mark.every_value
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("limit", [1, 2, 6])
@pytest.mark.parametrize("seed", range(6))
def test_streamed_tokens_equal_the_answer(seed: int, limit: int, beam: int) -> None:
    decoder = decoder_of(Scripted(9, seed=seed, spread=1.0), 6, FORCED)
    decoder.join([("key", Prompt((5,), (1,)), options(max_new_tokens=limit, beam_size=beam))])
    streamed, answer = [], None
    while answer is None:
        progress = decoder.step()
        streamed += [token for _, token in progress.tokens]
        answer = progress.finished[0][1][0] if progress.finished else None
    assert tuple(streamed) == answer.tokens[: len(streamed)]
    assert len(answer.tokens) < limit
    if beam == 1:
        assert len(streamed) == len(answer.tokens)


@pytest.mark.parametrize("seed", range(4))
def test_suppressed_tokens_keep_their_probability_mass(seed: int) -> None:
    network, prompt = Scripted(6, seed=seed), Prompt((5,), (1, 4))
    everything = [
        Hypothesis(tokens, total, total / (len(tokens) + 1), True)
        for tokens, total, ended in network.everything(prompt, 4, EOS)
        if ended and not set(tokens) & set(RULES.suppressed)
    ]
    assert sum(math.exp(h.log_probability) for h in everything) < 0.9
    expected = sorted(everything, key=lambda h: -h.score)[:10]
    same(one(network, prompt, options(max_new_tokens=4, beam_size=81, n_best=10), SHARED), expected)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_text_is_scored_over_the_full_vocabulary(seed: int) -> None:
    network, prompt = Scripted(9, seed=seed), Prompt((5,), (1, 4))
    (result,), (usual,) = (one(network, prompt, options(), rules) for rules in (SHARED, RULES))
    assert (result.tokens, result.finished) == (usual.tokens, usual.finished)
    tokens = [*result.tokens, *([EOS] if result.finished else [])]
    assert result.log_probability == pytest.approx(network.score(prompt, tokens), abs=1e-5)
    assert result.log_probability < usual.log_probability
