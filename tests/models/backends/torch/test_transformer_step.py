"""The Transformer stepped over its cache against full passes: all options, ragged rows, number formats."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.backends import select
from models.backends.torch.transformer_step import pad_rows
from models.interface import Prompt
from tests.combinations import slow_but
from tests.models import tiny
from tests.models.stepping import (
    ALL,
    CONTINUATIONS,
    PROMPTS,
    RAGGED,
    TOLERANCE,
    alone,
    check_step,
    full,
    started,
    stepped,
)


@ALL
def test_steps_equal_the_full_pass(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    decodable = select.decodable(network)
    state, histories = started(decodable, PROMPTS, 5)
    for number in range(6):
        check_step(network, decodable, state, [p.source for p in PROMPTS], histories)
        for row, history in enumerate(histories):
            history.append(1 + (5 * number + 3 * row) % 16)


@ALL
def test_an_empty_source_is_one_of_padding_alone(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    decodable, pad = select.decodable(network), network.config.pad
    expected = alone(network, (pad,), (1, 3))
    assert expected.isfinite().all()
    for prompts in ([Prompt((), (1, 3))], [Prompt((), (1, 3)), Prompt((4, 5), (1,))]):
        state, histories = started(decodable, prompts, 2)
        check_step(network, decodable, state, [p.source or (pad,) for p in prompts], histories)
        assert decodable.allocate(1, 0, 3).source[0].both.size(1) > 0
        state = decodable.allocate(2, 9, 16)
        decodable.prefill(state, range(len(prompts)), prompts)
        decodable.copy(state, [0], [1])
        result = decodable.step(state, torch.tensor([3, 3]))
        torch.testing.assert_close(result[0], expected, **TOLERANCE)
        torch.testing.assert_close(result[1], expected, **TOLERANCE)


def test_ragged_ids_are_padded_at_the_end() -> None:
    result = pad_rows([(1, 2, 3), (), (4,)], 9, torch.device("cpu"))
    assert result.tolist() == [[1, 2, 3], [9, 9, 9], [4, 9, 9]]
    assert pad_rows([()], 0, torch.device("cpu")).dtype == torch.long


@pytest.mark.parametrize("name", slow_but(tiny.OPTIONS, *tiny.QUICK))
def test_ragged_rows_of_any_option_are_the_full_pass(name: str) -> None:
    for more in ({}, {"norm": "pre"}, {"activation": "silu"}, {"output_bias": True}, {"attention_bias": False}):
        network = tiny.transformer(**{**tiny.OPTIONS[name], **more})
        expected = full(network, RAGGED, CONTINUATIONS)
        assert expected.std() > 0.1
        torch.testing.assert_close(stepped(select.decodable(network), RAGGED, CONTINUATIONS), expected, **TOLERANCE)


@pytest.mark.every_value
@pytest.mark.parametrize(("precision", "most"), [("bf16", 0.12), ("fp16", 0.015), ("int8", 0.25)])
@ALL
def test_narrow_formats_stay_near_the_full_pass(options: dict[str, Any], precision: Any, most: float) -> None:
    network = tiny.transformer(**options)
    expected = full(network, RAGGED, CONTINUATIONS)
    result = stepped(select.decodable(network, precision), RAGGED, CONTINUATIONS)
    assert result.dtype == torch.float32
    assert 0 < (result - expected).abs().max() < most


@pytest.mark.parametrize(("precision", "most"), [("fp32", 5e-6), ("int8", 0.05)])
@pytest.mark.parametrize("name", ["post", "pre", "marian"])
def test_a_row_alone_is_the_row_in_a_batch(name: str, precision: Any, most: float) -> None:
    """In int8 a last digit may tip a rounding."""
    decodable = select.decodable(tiny.transformer(**tiny.OPTIONS[name]), precision)
    together = stepped(decodable, RAGGED, CONTINUATIONS)
    for row, prompt, tokens in zip(together, RAGGED, CONTINUATIONS, strict=True):
        torch.testing.assert_close(stepped(decodable, [prompt], [tokens])[0], row, rtol=0, atol=most)
