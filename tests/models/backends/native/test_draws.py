"""Native draws equal PyTorch's and the definition, whatever other rows the batch holds."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backends.native import build, logit_kernels
from models.backends.native.logit_kernels import SamplingParameters
from models.decoding import sampling
from tests.models.backends.native.test_fp32_recurrent import AVAILABLE
from tests.models.decoding.draws import ALMOST_1, Draw, chosen_by_definition
from tests.models.kernels import compiled

CUTS = [(0, 1.0), (1, 1.0), (5, 1.0), (40, 1.0), (0, 0.9), (0, 1e-9), (0, 0.999999), (40, 0.8), (10**6, 1.0), (7, 0.5)]
SHAPES = {
    "flat": lambda size: torch.zeros(size),
    "nearly flat": lambda size: torch.randn(size) * 1e-4,
    "wide": lambda size: torch.randn(size) * 3,
    "peaked": lambda size: torch.randn(size) * 30,
    "tied": lambda size: (torch.randn(size) * 2).round(),
    "mostly impossible": lambda size: torch.where(torch.rand(size) < 0.9, -math.inf, torch.randn(size)).index_fill(
        0, torch.tensor([size // 2]), 0.5
    ),
}


@pytest.fixture(scope="module", params=AVAILABLE, ids=lambda variant: variant.name)
def library(request: pytest.FixtureRequest) -> Any:
    return compiled(build.first_loadable([request.param], "fp32"))


def columns(chosen: list[Draw]) -> SamplingParameters:
    t, k, p, number = (np.array(column) for column in zip(*chosen, strict=True))
    return SamplingParameters(t.astype(float), k.astype(np.int64), p.astype(float), number.astype(float))


def drawn(library: Any, logits: Tensor, chosen: list[Draw]) -> list[int]:
    tokens: list[int] = logit_kernels.native_sample(library, logits, columns(chosen)).tolist()
    return tokens


@pytest.mark.parametrize("size", [1, 7, 64, 300, 1344])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_draw_is_where_the_definition_puts_it(library: Any, shape: str, size: int) -> None:
    torch.manual_seed(size)
    rng = random.Random(size)
    for k, p in CUTS:
        logits, t = SHAPES[shape](size), rng.choice([0.3, 1.0, 2.0])
        numbers = [0.0, ALMOST_1, *(rng.random() for _ in range(30))]
        tokens = drawn(library, logits.expand(len(numbers), -1).contiguous(), [(t, k, p, n) for n in numbers])
        kept = chosen_by_definition(logits, t, k, p)
        weights = ((logits[kept] - logits.max()).double() / t).exp()
        passed = [0.0, *(weights.cumsum(0) / weights.sum()).tolist()]
        for number, token in zip(numbers, tokens, strict=True):
            assert logits[token] > -math.inf
            if p == 0.999999 and token not in kept:  # where the cut falls, rounding decides
                assert number > 1 - 1e-5
                continue
            place = kept.index(token)
            assert passed[place] - 1e-6 <= number <= passed[place + 1] + 1e-6, (k, p, t)


@pytest.mark.parametrize("size", [50, 640, 1344])
def test_draws_do_not_depend_on_the_batch(library: Any, size: int) -> None:
    torch.manual_seed(size)
    rng = random.Random(size)
    logits = torch.stack([SHAPES[rng.choice(list(SHAPES))](size) for _ in range(65)])
    logits[13] = math.nan
    chosen: list[Draw] = [(rng.choice([1e-300, 0.4, 1.0, 50.0]), *rng.choice(CUTS), rng.random()) for _ in range(65)]
    alone = [drawn(library, logits[row : row + 1], [chosen[row]])[0] for row in range(65)]
    assert drawn(library, logits, chosen) == alone
    assert drawn(library, logits.flip(0), chosen[::-1]) == alone[::-1]
    for rows in (2, 3, 17, 64):
        assert drawn(library, logits[5 : 5 + rows], chosen[5 : 5 + rows]) == alone[5 : 5 + rows]
    assert len(set(alone)) > 20
    assert alone[13] == 0


def test_seeds_draw_what_they_drew_in_pytorch(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for one in millions, which rounding moves."""
    torch.manual_seed(1)
    seeds = np.arange(512, dtype=np.uint64)
    for number, (k, p) in enumerate(CUTS):
        logits = torch.randn(512, 1344) * 2
        positions = np.full_like(seeds, number)
        with monkeypatch.context() as patched:
            patched.setattr(build, "fp32_library", lambda: None)
            uniform = sampling.uniform(seeds, positions)
            chosen = SamplingParameters(np.full(512, 0.8), np.full(512, k), np.full(512, p), uniform)
            expected = sampling.sample(logits, chosen)
        assert np.array_equal(logit_kernels.native_uniform(library, seeds, positions), uniform)
        assert torch.equal(logit_kernels.native_sample(library, logits, chosen), expected), (k, p)


def test_numbers_of_the_largest_seeds_and_positions(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    seeds, positions = edges.repeat(4), np.tile(edges, 4)
    monkeypatch.setattr(build, "fp32_library", lambda: None)
    assert np.array_equal(logit_kernels.native_uniform(library, seeds, positions), sampling.uniform(seeds, positions))


def test_broken_rows_draw_the_first_token(library: Any) -> None:
    logits = torch.randn(4, 320)
    logits[0, 300], logits[1], logits[2, 5] = math.nan, -math.inf, math.inf
    for k, p in CUTS:
        tokens = drawn(library, logits, [(1.0, k, p, 0.999)] * 4)
        assert tokens[:3] == [0, 0, 0]
        assert tokens[3] == drawn(library, logits[3:], [(1.0, k, p, 0.999)])[0]
