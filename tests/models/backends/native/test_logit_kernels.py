"""The native search for the largest logits, against PyTorch's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backends import top_k
from models.backends.native import logit_kernels as native
from models.backends.top_k import Continuations

pytestmark = pytest.mark.usefixtures("library")

WIDTHS = (1, 2, 15, 16, 17, 63, 64, 65, 500, 1000, 4033, 8000)
KINDS = ("random", "ties", "two values", "suppressed", "mostly -inf", "all -inf", "equal", "ascending", "infinite")


def logits(rows: int, width: int, kind: str, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    result = torch.randn(rows, width, generator=generator) * 4
    if kind == "ties":
        result = result.round()
    elif kind == "two values":
        result = (result > 5).float()
    elif kind == "suppressed":
        result[:, ::7] = -math.inf
        result[:, width - width // 5 :] = -math.inf  # columns that fill a block
    elif kind == "mostly -inf":
        result[torch.rand(result.shape, generator=generator) < 0.99] = -math.inf
    elif kind == "all -inf":
        result.fill_(-math.inf)
    elif kind == "equal":
        result.fill_(-2.5)
    elif kind == "ascending":
        result = result.sort(dim=-1).values
    elif kind == "infinite":
        result[:, width // 2] = math.inf
    return result


def ordered(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest first, NaN before all, equal ones by their places."""
    values, places = rows.sort(dim=-1, descending=True, stable=True)
    return values[:, :count], places[:, :count]


def in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "usable", lambda *_: None)


def largest(given: Tensor, count: int) -> tuple[Tensor, Tensor]:
    kernels = native.usable(given, count)
    assert kernels is not None
    return native.native_top_k(kernels, given, count)


def log_totals(given: Tensor, maxima: Tensor) -> Tensor:
    kernels = native.usable(given)
    assert kernels is not None
    return native.native_logsumexp(kernels, given, maxima)


@pytest.mark.every_value(together=2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_and_their_places(kind: str) -> None:
    for width, (rows, seed) in itertools.product(WIDTHS, ((1, 1), (3, 2), (17, 3))):
        given = logits(rows, width, kind, seed)
        expected = ordered(given, native.MOST)
        for count in (1, 2, 5, 8, 31, 32, native.MOST):
            if count <= width:
                values, places = largest(given, count)
                assert torch.equal(values, expected[0][:, :count]), width
                assert torch.equal(places, expected[1][:, :count]), width


@pytest.mark.every_value(together=2)
@pytest.mark.parametrize("width", WIDTHS)
def test_first_nan_is_the_largest(width: int) -> None:
    """As PyTorch's argmax and topk have it; the rows beside it are as they were."""
    given = logits(4, width, "random")
    given[1] = math.nan
    given[2, width // 2 :: 3] = math.nan
    given[1, 0] = given[2, 0] = -math.inf if width > 2 else math.nan
    count = min(8, width)
    values, places = largest(given, count)
    expected = ordered(given, count)
    assert torch.equal(values.nan_to_num(nan=1e9), expected[0].nan_to_num(nan=1e9))
    assert torch.equal(places, expected[1])
    assert torch.equal(top_k.argmax(given), given.argmax(dim=-1))
    totals = log_totals(given, values[:, :1])
    assert totals.isnan().tolist() == [False, True, True, False]


@pytest.mark.every_value(together=2)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("all -inf", "infinite")])
def test_the_log_of_the_total(kind: str) -> None:
    """Within a few units in the last place, whatever PyTorch's own rounding is."""
    for width, scale in itertools.product(WIDTHS, (0.01, 1.0, 50.0)):
        given = logits(5, width, kind) * scale
        given[:, 0] = scale
        result = log_totals(given, given.amax(dim=-1, keepdim=True))
        expected = given.double().logsumexp(dim=-1)
        torch.testing.assert_close(result.double(), expected, rtol=2e-7, atol=1e-6)


@pytest.mark.parametrize("kind", ["all -inf", "infinite"])
def test_log_of_a_zero_total(kind: str) -> None:
    given = logits(2, 100, kind)
    assert log_totals(given, given.amax(dim=-1, keepdim=True)).isnan().all()


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    given = logits(9, 1003, "random")
    values, places = largest(given, 6)
    totals = log_totals(given, values[:, :1])
    for row in range(9):
        alone = largest(given[row : row + 1], 6)
        assert torch.equal(values[row : row + 1], alone[0])
        assert torch.equal(places[row : row + 1], alone[1])
        assert totals[row] == log_totals(given[row : row + 1], alone[0][:, :1])[0]


def test_rows_may_be_part_of_wider_ones() -> None:
    wide = logits(6, 300, "random")
    part = wide[1::2, :200]
    assert native.usable(part)
    assert torch.equal(largest(part, 4)[1], ordered(part, 4)[1])
    assert not native.usable(wide[:, ::2])
    assert not native.usable(wide.double())
    assert not native.usable(wide[:, :3], 4)


# Continuations of beams ---------------------------------------------------------------------------------


def so_far(beams: int, width: int, *, first: bool = False) -> np.ndarray:
    result = -np.sort(np.random.default_rng(beams * 100 + width).exponential(3, (beams, width)), axis=1)
    if first:
        result[:, 1:] = -math.inf
    return result.astype(np.float32)


def assert_same(found: Continuations, expected: Continuations, *, tokens: bool) -> None:
    np.testing.assert_allclose(found.log_probabilities, expected.log_probabilities, rtol=1e-6, atol=3e-6)
    if tokens:  # all impossible continuations are equal
        possible = expected.log_probabilities > -math.inf
        assert np.array_equal(found.parents[possible], expected.parents[possible])
        assert np.array_equal(found.tokens[possible], expected.tokens[possible])


@pytest.mark.every_value(together=2)
@pytest.mark.parametrize("kind", ["random", "suppressed", "ascending"])
@pytest.mark.parametrize(("beams", "width"), [(1, 1), (1, 4), (3, 2), (16, 4), (2, 9), (5, 16), (1, 32)])
def test_continuations_equal_pytorch(beams: int, width: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for vocabulary, first in itertools.product((70, 999, 4096), (False, True)):
        given = logits(beams * width, vocabulary, kind, seed=width)
        rows, scores = np.arange(beams * width).reshape(beams, width), so_far(beams, width, first=first)
        result = top_k.continuations(given.clone(), rows, scores)
        with monkeypatch.context() as patch:
            in_pytorch(patch)
            expected = top_k.continuations(given.clone(), rows, scores)
        assert result.tokens.shape == (beams, 2 * width)
        assert_same(result, expected, tokens=True)


@pytest.mark.parametrize("kind", ["ties", "two values", "equal", "mostly -inf"])
def test_ties_fall_to_the_first_hypothesis_and_token(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    beams, width, vocabulary = 3, 4, 515
    given = logits(beams * width, vocabulary, kind)
    given[4:8] = given[4]  # four hypotheses that say the same
    given[:, 3] = 2.0
    rows, scores = np.arange(beams * width).reshape(beams, width), so_far(beams, width)
    scores[1] = -1.0
    result = top_k.continuations(given.clone(), rows, scores)
    totals = log_totals(given, given.amax(dim=-1, keepdim=True))
    all_sums = ((given - totals[:, None]) + torch.from_numpy(scores).view(-1, 1)).view(beams, -1)
    values, places = ordered(all_sums, 2 * width)
    assert np.array_equal(result.log_probabilities, values.numpy())
    assert np.array_equal(result.parents, (places // vocabulary).numpy())
    assert np.array_equal(result.tokens, (places % vocabulary).numpy())
    with monkeypatch.context() as patch:
        in_pytorch(patch)
        assert_same(result, top_k.continuations(given.clone(), rows, scores), tokens=False)


def test_beams_in_any_rows_do_not_mix() -> None:
    given = logits(12, 777, "random")
    rows = np.array([[7, 2, 11], [0, 5, 1]])
    scores = so_far(2, 3)
    results = top_k.continuations(given.clone(), rows, scores)
    for beam in range(2):
        alone = top_k.continuations(given[rows[beam]].clone(), np.arange(3)[None], scores[beam : beam + 1])
        for together, by_itself in zip(results, alone, strict=True):
            assert np.array_equal(together[beam], by_itself[0])


def test_nan_beam_is_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    given = logits(8, 333, "random")
    given[1] = math.nan
    rows, scores = np.arange(8).reshape(2, 4), so_far(2, 4)
    result = top_k.continuations(given.clone(), rows, scores)
    with monkeypatch.context() as patch:
        in_pytorch(patch)
        expected = top_k.continuations(given.clone(), rows, scores)
    assert np.isnan(result.log_probabilities[0]).all()
    assert np.isnan(expected.log_probabilities[0]).all()
    assert result.parents[0].tolist() == expected.parents[0].tolist() == [1] * 8
    assert result.tokens[0].tolist() == list(range(8))
    assert np.array_equal(result.tokens[1], expected.tokens[1])


def test_fewer_tokens_than_continuations() -> None:
    given = torch.tensor([[0.0, 1.0, -math.inf], [2.0, 0.0, 1.0]])
    result = top_k.continuations(given, np.array([[0, 1]]), np.array([[-1.0, -2.0]], dtype=np.float32))
    expected = [(-1.3132617, 0, 1), (-2.3132617, 0, 0), (-2.4076059, 1, 0), (-3.4076059, 1, 2)]
    assert result.log_probabilities[0].tolist() == pytest.approx([value for value, _, _ in expected], abs=1e-6)
    assert [*zip(result.parents[0].tolist(), result.tokens[0].tolist(), strict=True)] == [
        (p, t) for _, p, t in expected
    ]


def test_threads_change_no_continuation(monkeypatch: pytest.MonkeyPatch) -> None:
    given, rows, scores = logits(12, 4033, "random"), np.arange(12).reshape(3, 4), so_far(3, 4)
    alone = top_k.continuations(given.clone(), rows, scores)
    monkeypatch.setattr(native, "LOGITS_WORTH_THREADS", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for _ in range(20):
        for together, by_itself in zip(top_k.continuations(given.clone(), rows, scores), alone, strict=True):
            assert np.array_equal(together, by_itself)
