"""The forms that other tools read: shapes, labels and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from examples.bertviz_view import to_bertviz
from examples.circuitsvis_view import to_circuitsvis
from models.inspection.forced_pass import forced_pass
from models.inspection.soft_alignments import to_nematus
from tests.models import tiny

SOURCE, INPUTS, OUTPUTS = ["ein", "Bier", "</s>"], ["<s>", "a", "beer", "."], ["a", "beer", ".", "</s>"]


def maps(**options: Any) -> dict[str, list[torch.Tensor]]:
    return forced_pass(tiny.transformer(**options), [3, 4, 2], [1, 5, 6, 7]).maps


def check(call: dict[str, Any]) -> None:
    """bertviz's own checks of its arguments."""
    sides = {"encoder": ("encoder", "encoder"), "decoder": ("decoder", "decoder"), "cross": ("decoder", "encoder")}
    depths = {len(call[f"{kind}_attention"]) for kind in sides if f"{kind}_attention" in call}
    assert len(depths) == 1, "layers are counted by one kind and looked up in all"
    for kind, (rows, keys) in sides.items():
        for weights in call.get(f"{kind}_attention", []):
            assert weights.shape == (1, 4, len(call[f"{rows}_tokens"]), len(call[f"{keys}_tokens"]))


def test_bertviz_in_one_call_where_depths_are_equal() -> None:
    given = maps()
    (call,) = to_bertviz(given, SOURCE, INPUTS)
    check(call)
    assert (call["encoder_tokens"], call["decoder_tokens"]) == (SOURCE, INPUTS)
    for kind in ("encoder", "decoder", "cross"):
        for passed, weights in zip(call[f"{kind}_attention"], given[kind], strict=True):
            assert torch.equal(passed[0], weights)


@pytest.mark.parametrize("name", ["unequal depths", "deep encoder"])
def test_bertviz_in_two_calls_where_they_differ(name: str) -> None:
    given = maps(**tiny.OPTIONS[name])
    first, second = to_bertviz(given, SOURCE, INPUTS)
    check(first)
    check(second)
    assert set(first) == {"encoder_attention", "encoder_tokens"}
    assert set(second) == {"decoder_attention", "cross_attention", "encoder_tokens", "decoder_tokens"}
    assert torch.equal(first["encoder_attention"][-1][0], given["encoder"][-1])
    assert torch.equal(second["cross_attention"][-1][0], given["cross"][-1])


def test_bertviz_with_cross_attention_named_by_what_it_chooses() -> None:
    given = maps(**tiny.OPTIONS["unequal depths"])
    calls = to_bertviz(given, SOURCE, INPUTS, OUTPUTS)
    for call in calls:
        check(call)
    assert [sorted(k for k in call if k.endswith("attention")) for call in calls] == [
        ["encoder_attention"],
        ["decoder_attention"],
        ["cross_attention"],
    ]
    assert [call.get("decoder_tokens") for call in calls] == [None, INPUTS, OUTPUTS]
    (alone,) = to_bertviz({"cross": given["cross"]}, SOURCE, INPUTS, OUTPUTS)
    assert alone["decoder_tokens"] == OUTPUTS


def test_circuitsvis_draws_each_kind() -> None:
    given = maps()
    for kind, tokens, triangle in (("encoder", SOURCE, False), ("decoder", INPUTS, True)):
        calls = to_circuitsvis(given, kind, SOURCE, INPUTS)
        assert len(calls) == 2
        for layer, call in enumerate(calls):
            assert torch.equal(call["attention"], given[kind][layer])
            assert call["tokens"] == tokens
            assert call["mask_upper_tri"] is triangle
            assert (call["min_value"], call["max_value"]) == (0.0, 1.0)
            assert call["attention_head_names"] == [f"{layer}.{head}" for head in range(4)]


@pytest.mark.parametrize("name", ["post", "unequal depths", "deep encoder"])
def test_circuitsvis_draws_cross_attention_in_one_square(name: str) -> None:
    given = maps(**tiny.OPTIONS[name])
    calls = to_circuitsvis(given, "cross", SOURCE, INPUTS)
    assert len(calls) == len(given["decoder"])
    for layer, call in enumerate(calls):
        joint = call["attention"]
        assert joint.shape == (4, 7, 7)
        assert call["tokens"] == SOURCE + INPUTS
        assert not call["mask_upper_tri"]
        assert torch.equal(joint[:, 3:, :3], given["cross"][layer])
        assert torch.equal(joint[:, 3:, 3:], given["decoder"][layer])
        expected = given["encoder"][layer] if layer < len(given["encoder"]) else torch.zeros(4, 3, 3)
        assert torch.equal(joint[:, :3, :3], expected)
        assert (joint[:, :3, 3:] == 0).all()
        assert (joint[:, 3:].sum(dim=-1) - 2).abs().max() <= 2e-6


def read(block: str) -> tuple[list[str], list[list[float]]]:
    head, *rows = block.rstrip("\n").split("\n")
    return head.split(" ||| "), [[float(value) for value in row.split(" ")] for row in rows]


def test_nematus_form() -> None:
    weights = maps()["cross"][1].mean(dim=0)
    head, rows = read(to_nematus(weights.numpy(), SOURCE, OUTPUTS, number=3, score=-1.5))
    assert head == ["3", "a beer .", "-1.500000", "ein Bier", "3 4"]
    torch.testing.assert_close(torch.tensor(rows), weights, rtol=0, atol=1e-6)
    assert [len(row) for row in rows] == [3] * 4


def test_nematus_form_without_end_tokens() -> None:
    weights = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    block = to_nematus(weights.numpy(), ["ein", "Bier"], ["a", "beer"], source_ended=False, target_ended=False)
    head, rows = read(block)
    assert head == ["0", "a beer", "0.000000", "ein Bier", "3 3"]
    assert rows == [[0.25, 0.75, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]


def test_nematus_format_survives_any_token() -> None:
    head, _ = read(to_nematus(np.eye(4, dtype=np.float32), ["|||", "a b", "", "</s>"], ["\n", "x", "|", "</s>"]))
    assert head[1] == "▁ x &#124;"
    assert head[3] == "&#124;&#124;&#124; a▁b ▁"
    with pytest.raises(ValueError, match=r"shape \(2, 2\) does not fit 2 target and 1 source tokens"):
        to_nematus(np.eye(2, dtype=np.float32), ["a"], ["b", "c"])
