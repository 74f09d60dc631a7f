"""Ablated heads: the log-probability they cost the written tokens, and the translation without them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, TokenRules
from models.inspection.ablation import ablation, without_heads
from models.inspection.forced_pass import forced_pass, forced_steps
from models.inspection.selection import Head, SelectionError
from models.interface import Prompt
from models.networks.transformer import Transformer
from tests.models import tiny

RULES = TokenRules(2, (0, 1))
PROMPT = Prompt((3, 9, 4, 7), (1,))
HEADS = [Head("encoder", 0, 1), Head("decoder", -1, 2), Head("cross", 0, 0)]
BOTH = pytest.mark.parametrize("options", [{"max_new_tokens": 8}, {"max_new_tokens": 8, "beam_size": 3, "n_best": 3}])


def test_empty_ablation_changes_nothing() -> None:
    network = tiny.transformer()
    result = ablation(network, PROMPT.source, [1, 5, 6], [5, 6, 2], [], RULES)
    assert result.logprob_sum_before == result.logprob_sum_after
    assert result.per_step_delta == [0.0, 0.0, 0.0]


def test_deltas_are_log_probability_differences() -> None:
    network = tiny.transformer()
    result = ablation(network, PROMPT.source, [1, 5, 6], [5, 6, 2], HEADS, RULES)
    zeroed = without_heads(network, HEADS)
    before, after = (
        [s.logprob for s in forced_steps(forced_pass(each, PROMPT.source, [1, 5, 6]).logits, [5, 6, 2], RULES)]
        for each in (network, zeroed)
    )
    assert result.per_step_delta == pytest.approx([b - a for a, b in zip(before, after, strict=True)], abs=1e-5)
    assert (result.logprob_sum_before, result.logprob_sum_after) == pytest.approx((sum(before), sum(after)), abs=1e-5)
    assert min(abs(delta) for delta in result.per_step_delta) > 1e-3


def test_prefix_tokens_are_left_out() -> None:
    network = tiny.transformer()
    whole = ablation(network, PROMPT.source, [1, 5, 6, 8], [5, 6, 8, 2], HEADS, RULES)
    part = ablation(network, PROMPT.source, [1, 5, 6, 8], [8, 2], HEADS, RULES)
    assert part.per_step_delta == whole.per_step_delta[2:]


def test_suppressed_token_has_no_delta() -> None:
    result = ablation(tiny.transformer(), PROMPT.source, [1, 5], [0, 2], HEADS, RULES)
    assert (result.logprob_sum_before, result.logprob_sum_after, result.per_step_delta[0]) == (
        -math.inf,
        -math.inf,
        0.0,
    )
    assert math.isfinite(result.per_step_delta[1])


@pytest.mark.every_value
@BOTH
@pytest.mark.parametrize("name", ["post", "pre", "marian"])
def test_ablated_translation(name: str, options: dict[str, Any]) -> None:
    """The decoder steps the copy over its cache; a full pass with the heads masked says the same of each hypothesis."""
    network = tiny.transformer(**{**tiny.OPTIONS[name], "pad": 0})
    chosen = DecodingOptions(**options)
    for hypothesis in decode(without_heads(network, HEADS), RULES, [PROMPT], chosen)[0]:
        outputs = [*hypothesis.tokens, *([2] if hypothesis.finished else [])]
        logits = forced_pass(network, PROMPT.source, [1, *outputs[:-1]], masked=HEADS).logits
        results = forced_steps(logits, outputs, RULES)
        assert sum(s.logprob for s in results) == pytest.approx(hypothesis.log_probability, abs=1e-4)
        if chosen.beam == 1:
            assert [s.rank for s in results] == [1] * len(results)


def shared_layers(network: Transformer) -> None:
    network.encoder[1] = network.encoder[0]
    network.decoder[1] = network.decoder[0]


def shared_attention(network: Transformer) -> None:
    network.decoder[0].cross_attention = network.decoder[0].attention


def shared_weights(network: Transformer) -> None:
    network.encoder[1].attention.output.weight = network.encoder[0].attention.output.weight


def parametrized_weights(network: Transformer) -> None:
    for layer in network.encoder:
        nn.utils.parametrizations.weight_norm(layer.attention.output)


@pytest.mark.parametrize("edit", [shared_layers, shared_attention, shared_weights, parametrized_weights])
def test_heads_are_taken_from_one_place(edit: Callable[[Transformer], None]) -> None:
    """Of a module or a matrix that several places use."""
    network = tiny.transformer()
    edit(network)
    masked = forced_pass(network, PROMPT.source, [1, 5, 6], masked=HEADS).logits
    assert (masked - forced_pass(network, PROMPT.source, [1, 5, 6]).logits).abs().max() > 1e-3
    copied = forced_pass(without_heads(network, HEADS), PROMPT.source, [1, 5, 6]).logits
    torch.testing.assert_close(copied, masked, rtol=0, atol=1e-5)


def test_a_copy_shares_all_tensors() -> None:
    network = tiny.transformer(tied="all", source_vocabulary=tiny.TARGET)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    copied = without_heads(network, HEADS)
    tensors = dict(network.named_parameters())
    assert all(value is tensors[name] for name, value in copied.named_parameters())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not any(module._forward_pre_hooks for module in network.modules())
    assert copied.target_embedding is copied.source_embedding
    assert not copied.training


def test_missing_heads_are_refused() -> None:
    for call in (
        lambda head: without_heads(tiny.transformer(), [head]),
        lambda head: ablation(tiny.transformer(), (3,), [1], [2], [head], RULES),
    ):
        with pytest.raises(SelectionError, match=r"There is no head 4: this model has 4 \(heads 0 to 3\)\."):
            call(Head("cross", 0, 4))
