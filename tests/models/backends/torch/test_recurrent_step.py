"""The recurrent language model stepped: against full passes, ragged prompts, rows that move, number formats."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.backends import select
from models.interface import Prompt
from models.networks.recurrent import RecurrentState
from tests.models import tiny
from tests.models.networks.test_recurrent import EACH_CELL, EMBEDDINGS, TOLERANCE, a_state, same_state

pytestmark = pytest.mark.usefixtures("kernels")
PROMPTS = [
    Prompt((), (3, 4, 5, 6)),
    Prompt((), (7,)),
    Prompt((), (8, 9, 10, 11, 12, 13, 14)),
    Prompt((), (3, 3)),
]


@pytest.mark.every_value
@EMBEDDINGS
@EACH_CELL
def test_prefill_of_ragged_prompts_is_stepping(cell: str, embedding: int) -> None:
    network = tiny.recurrent(cell=cell, embedding=embedding)
    decodable = select.decodable(network)
    state = a_state(network, 6)  # whatever the rows held before
    decodable.prefill(state, [4, 0, 2, 5], PROMPTS)
    for row, prompt in zip([4, 0, 2, 5], PROMPTS, strict=True):
        expected = network.zeros(1)
        for token in prompt.prefix[:-1]:
            decodable.step(expected, torch.tensor([token]))
        of_row = RecurrentState(state.hidden[:, row : row + 1], state.memory[:, row : row + 1])
        same_state(network, of_row, expected)
    untouched = a_state(network, 6)
    assert torch.equal(state.hidden[:, [1, 3]], untouched.hidden[:, [1, 3]])


def test_prefill_of_single_tokens_is_zeros() -> None:
    network = tiny.recurrent()
    decodable = select.decodable(network)
    state = a_state(network, 2)
    decodable.prefill(state, [1], [Prompt((), (7,))])
    assert (state.hidden[:, 1] == 0).all()
    assert (state.memory[:, 1] == 0).all()
    assert (state.hidden[:, 0] != 0).all()


@EACH_CELL
def test_rows_step_alone_and_move_at_once(cell: str) -> None:
    network = tiny.recurrent(cell=cell)
    decodable = select.decodable(network)
    state = a_state(network, 5)
    before = RecurrentState(state.hidden.clone(), state.memory.clone())
    decodable.copy(state, [0, 1, 1, 3], [1, 0, 3, 2])
    order = [1, 0, 3, 1, 4]
    assert torch.equal(state.hidden, before.hidden[:, order])
    assert torch.equal(state.memory, before.memory[:, order])
    logits = decodable.step(state, torch.tensor([5, 6]))
    assert torch.equal(state.hidden[:, 2:], before.hidden[:, order][:, 2:]), "rows that wait keep still"
    for row, token in ((0, 5), (1, 6)):
        single = RecurrentState(
            before.hidden[:, order[row] : order[row] + 1].clone(), before.memory[:, order[row] : order[row] + 1].clone()
        )
        torch.testing.assert_close(decodable.step(single, torch.tensor([token]))[0], logits[row], **TOLERANCE)


LAYERS = pytest.mark.parametrize("layers", [1, 2, 3])


def stepped(decodable: Any, texts: torch.Tensor) -> torch.Tensor:
    """texts [B, T] -> logits [B, T, V], the first token fed by the first step."""
    state = decodable.allocate(len(texts), 0, texts.size(1))
    decodable.prefill(state, range(len(texts)), [Prompt((), (token,)) for token in texts[:, 0].tolist()])
    return torch.stack([decodable.step(state, column) for column in texts.unbind(1)], dim=1)


@pytest.mark.every_value
@LAYERS
@EMBEDDINGS
@EACH_CELL
def test_steps_equal_the_full_pass(cell: str, embedding: int, layers: int) -> None:
    network = tiny.recurrent(cell=cell, embedding=embedding, layers=layers)
    tokens = tiny.ids((3, 11), 3, high=tiny.TARGET)
    with torch.inference_mode():
        expected = network(tokens)[0]
    assert expected.std() > 0.1
    torch.testing.assert_close(stepped(select.decodable(network), tokens), expected, rtol=0, atol=1e-6)


@EACH_CELL
def test_a_networks_own_state_of_many_tokens_is_that_of_its_prefill(cell: str) -> None:
    network = tiny.recurrent(cell=cell, layers=3)
    text = tiny.ids((1, 40), 2, high=tiny.TARGET)
    decodable = select.decodable(network)
    state = decodable.allocate(3, 0, 50)
    decodable.prefill(state, [2], [Prompt((), tuple(text[0].tolist()))])
    decodable.copy(state, [2], [0])
    with torch.inference_mode():
        expected = network(text)[0][0, -1]
    torch.testing.assert_close(decodable.step(state, text[:, -1])[0], expected, rtol=0, atol=1e-6)


@pytest.mark.every_value
@pytest.mark.parametrize(("precision", "most"), [("bf16", 0.12), ("fp16", 0.012)])
@EMBEDDINGS
@EACH_CELL
def test_narrow_formats_stay_near(cell: str, embedding: int, precision: Any, most: float) -> None:
    network = tiny.recurrent(cell=cell, embedding=embedding, hidden=24)
    tokens = tiny.ids((5, 12), 7, high=tiny.TARGET)
    with torch.inference_mode():
        expected = network(tokens)[0]
    result = stepped(select.decodable(network, precision), tokens)
    assert result.dtype == torch.float32
    assert 0 < (result - expected).abs().max() < most


def test_int8_is_for_translators_only() -> None:
    selection = select.select(tiny.recurrent(), "int8")
    assert selection.precision == "fp32"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_row_alone_is_the_row_in_a_batch(precision: Any) -> None:
    network = tiny.recurrent(cell="lstm", hidden=24)
    tokens = tiny.ids((7, 12), 8, high=tiny.TARGET)
    decodable = select.decodable(network, precision)
    together = stepped(decodable, tokens)
    for row, text in zip(together, tokens, strict=True):
        torch.testing.assert_close(stepped(decodable, text[None])[0], row, rtol=0, atol=2e-6)


def test_freed_row_leaves_no_state() -> None:
    network = tiny.recurrent(cell="lstm")
    decodable = select.decodable(network)
    state = decodable.allocate(2, 0, 9)
    state.hidden.fill_(float("nan"))
    state.memory.fill_(float("nan"))
    decodable.prefill(state, [0, 1], [Prompt((), (3, 4, 5)), Prompt((), (6,))])
    for row, text in enumerate(([3, 4, 5], [6])):
        with torch.inference_mode():
            expected = network(torch.tensor([text]))[0][0, -1]
        one = RecurrentState(state.hidden[:, row : row + 1].clone(), state.memory[:, row : row + 1].clone())
        torch.testing.assert_close(decodable.step(one, torch.tensor(text[-1:]))[0], expected, rtol=0, atol=1e-6)


def test_networks_in_training_mode_are_read_without_dropout() -> None:
    network = tiny.recurrent(dropout=0.5).train()
    decodable = select.decodable(network)
    logits = []
    for _ in range(2):
        state = decodable.allocate(1, 0, 9)
        decodable.prefill(state, [0], [Prompt((), (3, 4, 5, 6, 7))])
        logits.append(decodable.step(state, torch.tensor([7])))
    assert torch.equal(*logits)
    assert network.training
