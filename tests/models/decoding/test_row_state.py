"""Rows of a continuous batch without beams: writing, reporting, scoring and moving tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, StepResult, TokenRules
from models.decoding.row_state import COLUMNS, RowState
from models.interface import Prompt
from tests.models.decoding.draws import number_of, sampled
from tests.models.scripted import Scripted

pytestmark = pytest.mark.usefixtures("kernels")
CPU, EOS = torch.device("cpu"), 2


@dataclass
class Owner:
    key: str


OWNERS = [Owner(letter) for letter in "abcdef"]


def options(**given: Any) -> DecodingOptions:
    return DecodingOptions(**{"max_new_tokens": 5, **given})


def certain(*tokens: int) -> Tensor:
    """Logits of which one token a row is far the likeliest."""
    rows = torch.zeros(len(tokens), 8)
    rows[torch.arange(len(tokens)), torch.tensor(tokens)] = 60.0
    return rows


def started(*chosen: DecodingOptions, eos: int | None = EOS) -> RowState:
    rows = RowState(6, 6, eos, CPU)
    for row, choice in enumerate(chosen):
        rows.start(row, choice)
    rows.refresh(range(len(chosen)))
    return rows


def advance(rows: RowState, logits: Tensor) -> tuple[list[bool], list[int], list[tuple[Any, int]]]:
    reported: list[tuple[Any, int]] = []
    ended, done = rows.advance(logits, OWNERS[: len(logits)], StepResult(reported))
    return ended.tolist(), done.tolist(), reported


def test_tokens_are_stored_reported_and_fed_back() -> None:
    rows = started(options(), options(streamed=False), options(temperature=1.0))
    assert advance(rows, certain(3, 4, 5)) == ([False] * 3, [], [("a", 3), ("c", 5)])
    assert rows.feed[:3].tolist() == [3, 4, 5]
    assert advance(rows, certain(6, 7, EOS)) == ([False, False, True], [2], [("a", 6)])
    assert [rows.result(row, options(), finished=row == 2).tokens for row in range(3)] == [(3, 6), (4, 7), (5,)]


def test_the_limit_is_an_end_without_an_end_token() -> None:
    rows = started(options(max_new_tokens=1), options(max_new_tokens=1), options())
    ended, done, reported = advance(rows, certain(3, EOS, 4))
    assert (ended, done, reported) == ([False, True, False], [0, 1], [("a", 3), ("c", 4)])
    cut, whole = (rows.result(row, options(max_new_tokens=1), finished=ended[row]) for row in (0, 1))
    assert (cut.tokens, cut.finished, whole.tokens, whole.finished) == ((3,), False, (), True)


def test_without_an_end_token_nothing_ends() -> None:
    rows = started(options(), eos=None)
    assert advance(rows, certain(EOS)) == ([False], [], [("a", EOS)])


def test_beam_rows_are_skipped() -> None:
    rows = started(options(), options(), options())
    rows.refresh([0, 2])
    assert advance(rows, certain(3, 4, 5)) == ([False] * 3, [], [("a", 3), ("c", 5)])
    assert rows.lengths[:3].tolist() == [1, 0, 1]
    assert rows.feed[1] == 0


def test_log_probabilities_of_rows_that_request_them() -> None:
    torch.manual_seed(0)
    rows = started(options(length_penalty=0.5), options(scores=False), options(temperature=0.7, seed=4))
    total, drawn = [0.0, 0.0], []
    for position in range(3):
        logits = torch.randn(3, 8)
        logits[:, EOS] = -math.inf
        expected = logits.double().log_softmax(-1)
        token = sampled(logits[2:], [({"temperature": 0.7}, number_of(4, position))])[0]
        drawn.append(token)
        total[0] += expected[0].max().item()
        total[1] += expected[2, token].item()
        advance(rows, logits)
    first, second, third = (rows.result(row, options(scores=row != 1), finished=False) for row in range(3))
    assert first.log_probability == pytest.approx(total[0], abs=1e-5)
    assert rows.result(0, options(length_penalty=0.5), finished=False).score == pytest.approx(total[0] / 3**0.5)
    assert math.isnan(second.log_probability)
    assert math.isnan(second.score)
    assert third.log_probability == pytest.approx(total[1], abs=1e-5)
    assert third.tokens == tuple(drawn)


@pytest.mark.parametrize("eos", [EOS, None])
def test_requesting_scores_does_not_change_tokens(eos: int | None) -> None:
    network, rules = Scripted(9, spread=1.0), TokenRules(eos, (0, 1))
    kinds: list[dict[str, Any]] = [
        {},
        {"temperature": 1.1, "seed": 5},
        {"beam_size": 3},
        {"temperature": 0.8, "top_k": 4},
    ]
    prompts = [Prompt((n,), (1,)) for n in range(24)]
    outputs = []
    for scores in (lambda n: True, lambda n: False, lambda n: n % 3 == 0):
        chosen = [options(max_new_tokens=7, scores=scores(n), **kinds[n % 4]) for n in range(24)]
        results = decode(network, rules, prompts, chosen, slots=13)
        outputs.append([(h[0].tokens, h[0].finished) for h in results])
        for n, (hypothesis, *_) in enumerate(results):
            assert math.isnan(hypothesis.log_probability) == (not scores(n) and "beam_size" not in kinds[n % 4])
    assert outputs[0] == outputs[1] == outputs[2]


def test_moved_rows_keep_their_state() -> None:
    chosen = options(temperature=0.9, top_k=3, top_p=0.8, seed=7, max_new_tokens=4)
    rows = started(options(), chosen, options())
    advance(rows, certain(3, 4, 5))
    rows.move([1], [0])
    rows.move([], [])
    assert {name: column[0] for name, column in rows.options.items()} == {
        name: getattr(chosen, name) for name in COLUMNS
    }
    assert (rows.feed[0], rows.lengths[0]) == (4, 1)
    rows.refresh([0])
    advance(rows, certain(6))
    assert rows.result(0, options(), finished=False).tokens == (4, 6)
    rows.move([0, 2], [2, 0])
    assert [rows.result(row, options(), finished=False).tokens for row in (0, 2)] == [(5,), (4, 6)]


def test_reused_row_starts_clean() -> None:
    rows = started(options(temperature=1.0, seed=3, streamed=False))
    advance(rows, certain(3))
    rows.start(0, options())
    assert (rows.lengths[0], rows.log_probability[0], rows.options["temperature"][0], rows.streamed[0]) == (
        0,
        0.0,
        0.0,
        True,
    )


@pytest.mark.every_value
@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 + 5, -(2**70)])
@pytest.mark.parametrize("top_k", [0, 2**63 - 1, 10**20])
def test_numbers_of_any_size(seed: int, top_k: int) -> None:
    rows = started(options(temperature=1.0, seed=seed, top_k=top_k), eos=None)
    logits = torch.randn(1, 8, generator=torch.Generator().manual_seed(3))
    advance(rows, logits.clone())  # which are written over
    expected = sampled(logits, [({"top_k": min(top_k, 2**63 - 1)}, number_of(seed, 0))])
    assert rows.feed[0] == expected[0]


@pytest.mark.parametrize("size", [8, 640])
def test_nan_row_is_isolated_and_writes_a_valid_token(size: int) -> None:
    """The last columns may be there only to fill a block."""
    kinds = [options(), options(temperature=1.0), options(temperature=1.0, top_p=0.9)]
    rows = started(*kinds, *kinds)
    logits = torch.randn(6, size)
    logits[:3] = math.nan
    alone = started(*kinds)
    advance(alone, logits[3:].clone())
    advance(rows, logits.clone())
    assert np.array_equal(rows.feed[3:6], alone.feed[:3])
    assert (rows.feed[:3] < max(1, size - 63)).all()
