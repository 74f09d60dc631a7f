"""Native draws equal PyTorch's and the definition, whatever other rows the batch holds."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backends.native import build
from models.backends.native.logit_kernels import Chooser
from models.backends.torch.token_choice import uniform
from tests.models.backends.native.test_fp32_recurrent import AVAILABLE
from tests.models.decoding.draws import ALMOST_1, CUTS, Draw, Options, chosen_by_definition, columns, sampled
from tests.models.kernels import compiled

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


def seed_of(number: float) -> int:
    """The seed whose uniform number at position 0 is `number`, a multiple of 2**-53."""
    state = int(number * 2**53) << 11
    for _ in range(2):
        for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
            mixed = state
            for _ in range(2):
                state = mixed ^ state >> shift
            state = state * pow(factor, -1, 2**64) % 2**64
    return (state - 0x632BE59BD9B4E019) * pow(0x9E3779B97F4A7C15, -1, 2**64) % 2**64


def chosen_tokens(library: Any, logits: Tensor, options: list[Options], seeds: Any, positions: Any) -> list[int]:
    arrays = columns(options) | {"lengths": positions.astype(np.int64), "seed": seeds}
    tokens: list[int] = Chooser(library, arrays)(logits, torch.arange(len(logits))).tolist()
    return tokens


def drawn(library: Any, logits: Tensor, draws: list[Draw]) -> list[int]:
    seeds = np.array([seed_of(number) for _, number in draws], dtype=np.uint64)
    return chosen_tokens(library, logits, [options for options, _ in draws], seeds, np.zeros_like(seeds))


def test_seeds_of_numbers() -> None:
    numbers = [0.0, ALMOST_1, 0.5, 2**-53, 0.123456789]
    seeds = np.array([seed_of(number) for number in numbers], dtype=np.uint64)
    assert uniform(seeds, np.zeros_like(seeds)).tolist() == [int(n * 2**53) / 2**53 for n in numbers]


@pytest.mark.every_value
@pytest.mark.parametrize("size", [1, 7, 64, 300, 1344])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_draw_is_where_the_definition_puts_it(library: Any, shape: str, size: int) -> None:
    torch.manual_seed(size)
    rng = random.Random(size)
    for cut in CUTS:
        logits, t = SHAPES[shape](size), rng.choice([0.3, 1.0, 2.0])
        options = {**cut, "temperature": t}
        numbers = [0.0, ALMOST_1, *(rng.random() for _ in range(30))]
        tokens = drawn(library, logits.expand(len(numbers), -1).contiguous(), [(options, n) for n in numbers])
        kept = chosen_by_definition(logits, options)
        weights = ((logits[kept] - logits.max()).double() / t).exp()
        passed = [0.0, *(weights.cumsum(0) / weights.sum()).tolist()]
        for number, token in zip(numbers, tokens, strict=True):
            assert logits[token] > -math.inf
            if cut.get("top_p") == 0.999999 and token not in kept:  # where the cut falls, rounding decides
                assert number > 1 - 1e-5
                continue
            place = kept.index(token)
            assert passed[place] - 1e-6 <= number <= passed[place + 1] + 1e-6, options


@pytest.mark.parametrize("size", [50, 640, 1344])
def test_draws_do_not_depend_on_the_batch(library: Any, size: int) -> None:
    torch.manual_seed(size)
    rng = random.Random(size)
    logits = torch.stack([SHAPES[rng.choice(list(SHAPES))](size) for _ in range(65)])
    logits[13] = math.nan
    heats = [1e-300, 0.4, 1.0, 50.0]
    chosen = [({**rng.choice(CUTS), "temperature": rng.choice(heats)}, rng.random()) for _ in range(65)]
    alone = [drawn(library, logits[row : row + 1], [chosen[row]])[0] for row in range(65)]
    assert drawn(library, logits, chosen) == alone
    assert drawn(library, logits.flip(0), chosen[::-1]) == alone[::-1]
    for rows in (2, 3, 17, 64):
        assert drawn(library, logits[5 : 5 + rows], chosen[5 : 5 + rows]) == alone[5 : 5 + rows]
    assert len(set(alone)) > 20
    assert alone[13] == 0


def test_seeds_draw_what_they_draw_in_pytorch(library: Any) -> None:
    """But for one in millions, which rounding moves."""
    torch.manual_seed(1)
    seeds = np.arange(512, dtype=np.uint64)
    for number, cut in enumerate(CUTS):
        logits = torch.randn(512, 1344) * 2
        positions = np.full_like(seeds, number)
        options = [{**cut, "temperature": 0.8}] * 512
        expected = sampled(logits, list(zip(options, uniform(seeds, positions).tolist(), strict=True)))
        assert chosen_tokens(library, logits, options, seeds, positions) == expected, cut


def test_numbers_of_the_largest_seeds_and_positions(library: Any) -> None:
    edges = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    seeds, positions = edges.repeat(5), np.tile(edges, 5)
    logits = torch.zeros(25, 20_000)
    expected = sampled(logits, [({}, number) for number in uniform(seeds, positions).tolist()])
    assert chosen_tokens(library, logits, [{}] * 25, seeds, positions) == expected
    assert len(set(expected)) > 10


def test_broken_rows_draw_the_first_token(library: Any) -> None:
    logits = torch.randn(4, 320)
    logits[0, 300], logits[1], logits[2, 5] = math.nan, -math.inf, math.inf
    for cut in CUTS:
        tokens = drawn(library, logits, [(cut, 0.999)] * 4)
        assert tokens[:3] == [0, 0, 0]
        assert tokens[3] == drawn(library, logits[3:], [(cut, 0.999)])[0]
