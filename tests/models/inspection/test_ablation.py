"""Heads taken away: what it costs the tokens that were written, and what is written instead."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.inspection.ablation import ablation, without_heads
from models.inspection.forced_pass import forced_pass, forced_steps
from models.inspection.selection import Head, SelectionError
from models.interface import Prompt
from tests.models import tiny

RULES = TokenRules(2, (0, 1))
PROMPT = Prompt((3, 9, 4, 7), (1,))
HEADS = [Head("encoder", 0, 1), Head("decoder", -1, 2), Head("cross", 0, 0)]
BOTH = pytest.mark.parametrize("options", [{"max_new_tokens": 8}, {"max_new_tokens": 8, "beam_size": 3, "n_best": 3}])


def test_empty_ablation_changes_nothing() -> None:
    network = tiny.transformer()
    found = ablation(network, PROMPT.source, [1, 5, 6], [5, 6, 2], [], RULES)
    assert found.logprob_sum_before == found.logprob_sum_after
    assert found.per_step_delta == [0.0, 0.0, 0.0]


def test_deltas_are_what_each_token_gained() -> None:
    network = tiny.transformer()
    found = ablation(network, PROMPT.source, [1, 5, 6], [5, 6, 2], HEADS, RULES)
    zeroed = without_heads(network, HEADS)
    before, after = (
        [s.logprob for s in forced_steps(forced_pass(each, PROMPT.source, [1, 5, 6]).logits, [5, 6, 2], RULES)]
        for each in (network, zeroed)
    )
    assert found.per_step_delta == pytest.approx([b - a for a, b in zip(before, after, strict=True)], abs=1e-5)
    assert (found.logprob_sum_before, found.logprob_sum_after) == pytest.approx((sum(before), sum(after)), abs=1e-5)
    assert min(abs(delta) for delta in found.per_step_delta) > 1e-3


def test_only_the_tokens_behind_a_prefix() -> None:
    network = tiny.transformer()
    whole = ablation(network, PROMPT.source, [1, 5, 6, 8], [5, 6, 8, 2], HEADS, RULES)
    part = ablation(network, PROMPT.source, [1, 5, 6, 8], [8, 2], HEADS, RULES)
    assert part.per_step_delta == whole.per_step_delta[2:]


def test_a_token_that_is_never_chosen_gains_nothing() -> None:
    found = ablation(tiny.transformer(), PROMPT.source, [1, 5], [0, 2], HEADS, RULES)
    assert (found.logprob_sum_before, found.logprob_sum_after, found.per_step_delta[0]) == (-math.inf, -math.inf, 0.0)
    assert math.isfinite(found.per_step_delta[1])


@BOTH
@pytest.mark.parametrize("name", ["post", "pre", "marian"])
def test_ablated_translation(name: str, options: dict[str, Any]) -> None:
    """The decoder steps the copy over its cache; a full pass with the heads masked says the same of each hypothesis."""
    network = tiny.transformer(**{**tiny.OPTIONS[name], "pad": 0})
    chosen = DecodingOptions(**options)
    for hypothesis in decode(without_heads(network, HEADS), RULES, [PROMPT], chosen)[0]:
        outputs = [*hypothesis.tokens, *([2] if hypothesis.finished else [])]
        logits = forced_pass(network, PROMPT.source, [1, *outputs[:-1]], masked=HEADS).logits
        found = forced_steps(logits, outputs, RULES)
        assert sum(s.logprob for s in found) == pytest.approx(hypothesis.log_probability, abs=1e-4)
        if chosen.beam == 1:
            assert [s.rank for s in found] == [1] * len(found)


def test_a_copy_shares_all_but_what_it_changes() -> None:
    network = tiny.transformer(tied="all", source_vocabulary=tiny.TARGET)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    copied = without_heads(network, HEADS)
    own = {name for name, value in copied.named_parameters() if value is not dict(network.named_parameters())[name]}
    assert own == {
        "encoder.0.attention.output.weight",
        "decoder.1.attention.output.weight",
        "decoder.0.cross_attention.output.weight",
    }
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    changed = copied.encoder_layers[0].attention.output.weight
    assert (changed[:, 4:8] == 0).all()
    assert torch.equal(changed[:, 8:], before["encoder.0.attention.output.weight"][:, 8:])
    assert copied.target_embedding is copied.source_embedding
    assert not copied.training


def test_heads_that_are_not_there() -> None:
    for call in (
        lambda head: without_heads(tiny.transformer(), [head]),
        lambda head: ablation(tiny.transformer(), (3,), [1], [2], [head], RULES),
    ):
        with pytest.raises(SelectionError, match=r"There is no head 4: this model has 4 \(heads 0 to 3\)\."):
            call(Head("cross", 0, 4))
