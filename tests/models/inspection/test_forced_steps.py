"""Per-token statistics equal the numbers that decoding used."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from models import scoring
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.inspection.forced_pass import forced_pass, forced_steps
from models.inspection.results import DecoderStep
from models.interface import Prompt
from tests.models import tiny

SUPPRESSED = (0, 1, 5)
RULES = {
    "renormalised": TokenRules(2, SUPPRESSED),
    "with their share": TokenRules(2, SUPPRESSED, renormalise=False),
    "forced end": TokenRules(2, SUPPRESSED, renormalise=False, forced_end=True),
    "no rules": TokenRules(2),
}
NETWORKS = {
    "post": tiny.OPTIONS["post"],
    "pre": tiny.OPTIONS["pre"],
    "tied": tiny.OPTIONS["tied"],
    "marian": {**tiny.OPTIONS["marian"], "pad": 0},
}
PROMPT = Prompt((3, 9, 4, 7), (1,))
LIMIT = 9


def steps_of(
    network: Any, hypothesis: Hypothesis, rules: TokenRules, prompt: Prompt = PROMPT, top_k: int = 0
) -> list[DecoderStep]:
    outputs = [*hypothesis.tokens, *([2] if hypothesis.finished else [])]
    inputs = [*prompt.prefix, *outputs[:-1]]
    logits = forced_pass(network, prompt.source, inputs, ()).logits
    return forced_steps(logits[len(prompt.prefix) - 1 :], outputs, rules, top_k)


@pytest.mark.every_value
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("name", NETWORKS)
def test_log_probabilities_equal_decoding(name: str, rules: TokenRules) -> None:
    ended = set()
    for seed in range(2):
        network = tiny.transformer(seed, **NETWORKS[name])
        for options in (
            DecodingOptions(max_new_tokens=LIMIT),
            DecodingOptions(max_new_tokens=LIMIT, beam_size=4, n_best=4),
        ):
            prompts = [PROMPT, Prompt((3, 9), (1, 6, 4))]
            for prompt, found in zip(prompts, decode(network, rules, prompts, options), strict=True):
                for hypothesis in found:
                    results = steps_of(network, hypothesis, rules, prompt)
                    total = sum(step.logprob for step in results)
                    assert total == pytest.approx(hypothesis.log_probability, abs=1e-4)
                    ended.add(hypothesis.finished)
    assert ended == {True, False} or name != "pre", "both kinds of hypotheses are among them"


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
def test_rank_of_greedy_and_sampled_tokens(rules: TokenRules) -> None:
    network = tiny.transformer(3)
    (greedy,) = decode(network, rules, [PROMPT], DecodingOptions(max_new_tokens=LIMIT))[0]
    for step in steps_of(network, greedy, rules, top_k=3):
        assert (step.rank, step.top[0].logprob) == (1, step.logprob)
    (drawn,) = decode(network, rules, [PROMPT], DecodingOptions(max_new_tokens=LIMIT, temperature=3.0, seed=4))[0]
    results = steps_of(network, drawn, rules, top_k=tiny.TARGET)
    for step in results:
        assert step.top[step.rank - 1].logprob == step.logprob
    assert [step.top[step.rank - 1].id for step in results] == [*drawn.tokens, *([2] if drawn.finished else [])]
    assert {step.rank for step in results} - {1}, "something else than the likeliest was drawn"


def test_statistics_equal_manual_computation() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0], [5.0, 0.0, 0.0, 0.0]])
    powers = [math.exp(value) for value in range(4)]
    whole, kept = sum(powers), sum(powers[1:])
    shares = [power / kept for power in powers[1:]]
    for renormalise, total in ((True, kept), (False, whole)):
        first, second = forced_steps(logits, [1, 3], TokenRules(3, (0,), renormalise), top_k=9)
        assert first.logprob == pytest.approx(math.log(powers[1] / total), abs=1e-6)
        assert first.rank == 3
        assert first.entropy_nats == pytest.approx(-sum(p * math.log(p) for p in shares), abs=1e-6)
        expected = [(token, math.log(powers[token] / total)) for token in (3, 2, 1)]
        assert [candidate.id for candidate in first.top] == [3, 2, 1], "what is never chosen is no alternative"
        assert [candidate.logprob for candidate in first.top] == pytest.approx(
            [value for _, value in expected], abs=1e-6
        )
        assert second.rank == 1, "of equals nobody is before anybody"
        assert second.entropy_nats == pytest.approx(math.log(3), abs=1e-6)


def test_suppressed_token_has_probability_0() -> None:
    (step,) = forced_steps(torch.tensor([[9.0, 1.0, 2.0]]), [0], TokenRules(2, (0,)))
    assert (step.logprob, step.rank, step.top) == (-math.inf, 3, [])


def test_logits_are_not_modified() -> None:
    logits = torch.randn(3, 9, generator=torch.Generator().manual_seed(0))
    before = logits.clone()
    for rules in RULES.values():
        forced_steps(logits, [3, 4, 2], rules, top_k=4)
    assert torch.equal(logits, before)


def test_rows_and_tokens_must_fit() -> None:
    with pytest.raises(ValueError, match="2 rows of logits cannot tell of 3 output tokens"):
        forced_steps(torch.zeros(2, 5), [1, 2, 3], TokenRules(2))
    assert forced_steps(torch.zeros(0, 5), [], TokenRules(2)) == []


@pytest.mark.parametrize("renormalise", [True, False])
def test_step_equals_the_score_at_the_same_position(renormalise: bool) -> None:
    """Counted in float32, as decoding does; a score is counted in float64."""
    logits = 4 * torch.randn(7, 256, generator=torch.Generator().manual_seed(1))
    rules, outputs = TokenRules(2, SUPPRESSED, renormalise), [3, 4, 9, 2, 250, 8, 7]
    scored = scoring.scores_of(scoring.log_probabilities(logits, rules), torch.tensor(outputs), 4)
    results = forced_steps(logits, outputs, rules, 4)
    for place, step in enumerate(results):
        assert step.logprob == pytest.approx(scored.log_probabilities[place].item(), abs=1e-5)
        assert step.rank == scored.ranks[place].item()
        assert step.entropy_nats == pytest.approx(scored.entropies[place].item(), abs=1e-6)
        assert [candidate.id for candidate in step.top] == scored.tokens[place].tolist()
        assert [candidate.logprob for candidate in step.top] == pytest.approx(
            scored.token_log_probabilities[place].tolist(), abs=1e-5
        )
