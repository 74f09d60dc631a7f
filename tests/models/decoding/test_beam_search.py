"""Beam search against brute force, on a network with scripted logits."""

from __future__ import annotations

import math

import pytest

from models.decoding.options import Hypothesis, TokenRules
from models.interface import Prompt
from tests.models.decoding.decoders import EOS, NO_END, RULES, one, options, same
from tests.models.scripted import Scripted


@pytest.mark.every_value
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_wide_beam_equals_brute_force(seed: int, penalty: float) -> None:
    """Three tokens to choose from and an end, four steps: 81 rows hold them all."""
    network, prompt = Scripted(6, seed=seed), Prompt((5,), (1, 4))
    everything = [
        Hypothesis(tokens, total, total / (len(tokens) + 1) ** penalty, True)
        for tokens, total, ended in network.everything(prompt, 4, EOS, RULES.suppressed)
        if ended
    ]
    assert len(everything) == 1 + 3 + 9 + 27
    expected = sorted(everything, key=lambda h: -h.score)[:10]
    same(one(network, prompt, options(max_new_tokens=4, beam_size=81, n_best=10, length_penalty=penalty)), expected)


@pytest.mark.parametrize("seed", range(3))
def test_wide_beam_without_end_token_equals_brute_force(seed: int) -> None:
    network, prompt = Scripted(3, seed=seed), Prompt((), (1, 2))
    everything = [(total, tokens) for tokens, total, _ in network.everything(prompt, 4, None)]
    assert len(everything) == 81
    results = one(network, prompt, options(max_new_tokens=4, beam_size=81, n_best=81), NO_END)
    assert [h.tokens for h in results] == [tokens for _, tokens in sorted(everything, reverse=True)]
    assert not any(h.finished for h in results)
    assert sum(math.exp(h.log_probability) for h in results) == pytest.approx(1, abs=1e-5)


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
    results = one(network, prompt, options(max_new_tokens=7, beam_size=width, n_best=width, length_penalty=0.8))
    same(results, beam_by_hand(network, prompt, width, 7, 0.8))
    assert [h.score for h in results] == sorted((h.score for h in results), reverse=True)
    for hypothesis in results:
        tokens = [*hypothesis.tokens, *([EOS] if hypothesis.finished else [])]
        assert hypothesis.log_probability == pytest.approx(network.score(prompt, tokens, RULES.suppressed), abs=1e-5)
        assert hypothesis.score == pytest.approx(hypothesis.log_probability / len(tokens) ** 0.8)


def test_a_beam_wider_than_the_vocabulary() -> None:
    results = one(Scripted(3), Prompt((), (1,)), options(max_new_tokens=2, beam_size=8, n_best=8), TokenRules(2))
    # a and b, then each with a, b or an end; and an end at once
    assert {h.tokens for h in results} == {(), (0,), (1,)}
    assert all(h.finished for h in results)
