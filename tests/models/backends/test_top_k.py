"""The largest of many logits, against PyTorch's own answer."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.backends.top_k import BLOCK, argmax, logsumexp, padded_to_blocks, top_k


@st.composite
def logits(draw: st.DrawFn) -> Tensor:
    """Any width, whole blocks more often than not; with ties, with tokens that cannot be."""
    width = draw(st.one_of(st.integers(1, 700), st.integers(4, 40).map(lambda n: n * BLOCK)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
    rows = torch.randn(draw(st.integers(0, 5)), width, generator=generator) * draw(st.sampled_from([0.01, 1.0, 30.0]))
    kind = draw(st.sampled_from(["random", "ties", "few values", "mostly -inf", "all -inf", "equal"]))
    if kind == "ties":
        rows = rows.round()
    elif kind == "few values":
        rows = (rows > 0).float()
    elif kind == "mostly -inf":
        rows[torch.rand(rows.shape, generator=generator) < 0.99] = -math.inf
    elif kind == "all -inf":
        rows.fill_(-math.inf)
    elif kind == "equal":
        rows.fill_(1.5)
    return rows


@given(logits())
@settings(max_examples=80, deadline=None)
def test_argmax_is_the_first_of_the_largest(rows: Tensor) -> None:
    result = argmax(rows)
    assert result.dtype == torch.long
    expected = [row.index(max(row)) for row in rows.tolist()]
    assert result.tolist() == expected


@given(logits(), st.integers(1, 20))
@settings(max_examples=80, deadline=None)
def test_top_are_the_largest_and_their_places(rows: Tensor, count: int) -> None:
    count = min(count, rows.size(1))
    values, places = top_k(rows, count)
    assert torch.equal(values, rows.topk(count, dim=-1).values)
    assert torch.equal(rows.gather(1, places), values)
    assert all(len(set(row)) == count for row in places.tolist())


@pytest.mark.parametrize("width", [7, 640])
def test_rows_that_are_views_of_others(width: int) -> None:
    wide = torch.randn(4, width * 2)
    assert torch.equal(argmax(wide[:, ::2]), wide[:, ::2].argmax(-1))
    assert torch.equal(argmax(wide[::2, :width]), wide[::2, :width].argmax(-1))


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_the_log_of_the_total(scale: float) -> None:
    rows = torch.randn(5, 300) * scale
    rows[:, 7] = -math.inf
    expected = rows.double().logsumexp(-1)
    result = logsumexp(rows, rows.amax(-1, keepdim=True))
    torch.testing.assert_close(result.double(), expected, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("outputs", [255, 256, 257, 320, 1000])
def test_rows_are_added_until_they_fill_blocks(outputs: int, biased: bool) -> None:
    weight, x = torch.nn.Parameter(torch.randn(outputs, 6)), torch.randn(3, 6)
    bias = torch.nn.Parameter(torch.randn(outputs)) if biased else None
    wider, with_it = padded_to_blocks(weight, bias)
    assert len(wider) % BLOCK == 0 or outputs < 4 * BLOCK
    assert len(wider) - outputs < BLOCK
    if len(wider) == outputs:
        assert wider is weight
        assert with_it is bias
    result, expected = torch.nn.functional.linear(x, wider, with_it), torch.nn.functional.linear(x, weight, bias)
    torch.testing.assert_close(result[:, :outputs], expected, rtol=0, atol=1e-5)
    assert result[:, outputs:].eq(-math.inf).all()
