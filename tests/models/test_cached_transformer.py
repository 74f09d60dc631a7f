"""The Transformer stepped over its cache against full passes: all options, ragged rows, moves, number formats."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from models.cached_transformer import TransformerState, pad_rows
from models.interface import Decodable, Prompt
from models.transformer import Transformer
from tests.models import tiny

ALL = pytest.mark.parametrize("options", tiny.OPTIONS.values(), ids=tiny.OPTIONS.keys())
TOLERANCE = {"rtol": 0, "atol": 1e-5}


def alone(network: Transformer, source: tuple[int, ...], target: tuple[int, ...]) -> Tensor:
    """Logits [V] after the last target token, from one full pass without padding."""
    with torch.inference_mode():
        return network(torch.tensor([source]), torch.tensor([target]))[0, -1]


PROMPTS = [
    Prompt((3, 4, 5, 6, 7), (1,)),
    Prompt((8,), (1, 9, 10, 11)),
    Prompt((3, 12, 2), (1, 4)),
    Prompt((14, 15, 16, 2, 9, 8, 7), (2,)),
]


def started(decodable: Decodable, prompts: list[Prompt], slots: int) -> tuple[TransformerState, list[list[int]]]:
    state = decodable.allocate(slots, 9, 16)
    decodable.prefill(state, range(len(prompts)), prompts)
    return state, [list(p.prefix) for p in prompts]


def check_step(
    network: Transformer,
    decodable: Decodable,
    state: TransformerState,
    sources: list[tuple[int, ...]],
    histories: list[list[int]],
) -> None:
    """One step feeds the last token of each history; its logits are those of a full pass over the history."""
    logits = decodable.step(state, torch.tensor([h[-1] for h in histories]))
    for row, source, history in zip(logits, sources, histories, strict=True):
        torch.testing.assert_close(row, alone(network, source, tuple(history)), **TOLERANCE)


@ALL
def test_steps_equal_the_full_pass(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    decodable = network.decodable()
    state, histories = started(decodable, PROMPTS, 5)
    for number in range(6):
        check_step(network, decodable, state, [p.source for p in PROMPTS], histories)
        for row, history in enumerate(histories):
            history.append(1 + (5 * number + 3 * row) % 16)


def test_fewer_rows_than_slots_and_rows_used_again() -> None:
    """A row that held a longer sentence is taken over by a shorter one, and nothing of it is left."""
    network = tiny.transformer()
    decodable = network.decodable()
    state, histories = started(decodable, PROMPTS, 4)
    sources = [p.source for p in PROMPTS]
    for _ in range(4):
        check_step(network, decodable, state, sources, histories)
        for history in histories:
            history.append(5)
    decodable.prefill(state, [3, 1], [Prompt((4,), (1,)), Prompt((5, 6), (1, 2))])
    sources[3], histories[3] = (4,), [1]
    sources[1], histories[1] = (5, 6), [1, 2]
    for count in (4, 2, 3):  # the others wait
        live = histories[:count]
        check_step(network, decodable, state, sources[:count], live)
        for history in live:
            history.append(7)


@pytest.mark.parametrize(
    ("sources", "destinations"),
    [([0, 1, 2, 3], [1, 2, 3, 0]), ([2, 2, 2], [0, 1, 3]), ([3, 0], [0, 3]), ([1], [1]), ([0, 1], [4, 5])],
)
def test_overlapping_moves(sources: list[int], destinations: list[int]) -> None:
    network = tiny.transformer()
    decodable = network.decodable()
    state, histories = started(decodable, PROMPTS, 6)
    given = [p.source for p in PROMPTS]
    for _ in range(3):
        check_step(network, decodable, state, given, histories)
        for row, history in enumerate(histories):
            history.append(4 + row)
    decodable.copy(state, sources, destinations)
    given += [(), ()]
    histories += [[], []]
    moved = [(to, given[row], list(histories[row])) for row, to in zip(sources, destinations, strict=True)]
    for to, source, history in moved:
        given[to], histories[to] = source, history
    live = max(4, *(to + 1 for to in destinations))
    for _ in range(3):
        check_step(network, decodable, state, given[:live], histories[:live])
        for row, history in enumerate(histories):
            history.append(6 + row)


@ALL
def test_an_empty_source_is_one_of_padding_alone(options: dict[str, Any]) -> None:
    network = tiny.transformer(**options)
    decodable, pad = network.decodable(), network.config.pad
    expected = alone(network, (pad,), (1, 3))
    assert expected.isfinite().all()
    for prompts in ([Prompt((), (1, 3))], [Prompt((), (1, 3)), Prompt((4, 5), (1,))]):
        state, histories = started(decodable, prompts, 2)
        check_step(network, decodable, state, [p.source or (pad,) for p in prompts], histories)
        assert decodable.allocate(1, 0, 3).source_cache.size(2) > 0
        state = decodable.allocate(2, 9, 16)
        decodable.prefill(state, range(len(prompts)), prompts)
        decodable.copy(state, [0], [1])
        found = decodable.step(state, torch.tensor([3, 3]))
        torch.testing.assert_close(found[0], expected, **TOLERANCE)
        torch.testing.assert_close(found[1], expected, **TOLERANCE)


def test_ragged_ids_are_padded_at_the_end() -> None:
    found = pad_rows([(1, 2, 3), (), (4,)], 9, torch.device("cpu"))
    assert found.tolist() == [[1, 2, 3], [9, 9, 9], [4, 9, 9]]
    assert pad_rows([()], 0, torch.device("cpu")).dtype == torch.long
