"""The slots of a Transformer's cache: rows that move, come together and take over from others."""

from __future__ import annotations

import resource
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.backends import select
from models.backends.torch.kv_cache import TransformerState, zeros
from models.interface import Prompt
from tests.models import tiny
from tests.models.stepping import (
    CONTINUATIONS,
    PROMPTS,
    RAGGED,
    TOLERANCE,
    check_step,
    full,
    own_cache,
    source_cache,
    started,
)


def test_fewer_rows_than_slots_and_rows_used_again() -> None:
    """A row that held a longer sentence is taken over by a shorter one, and nothing of it is left."""
    network = tiny.transformer()
    decodable = select.decodable(network)
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
    decodable = select.decodable(network)
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


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_rows_of_one_source_read_it_together(group: int, precision: Any) -> None:
    decodable = select.decodable(tiny.transformer(), precision)
    beams = [Prompt((3, 4, 5, 6, 7), (1, 8)), Prompt((8,), (1,)), Prompt((), (1,)), Prompt((2, 3), (1, 5, 6))]
    prompts = [prompt for prompt in beams for _ in range(group)]
    logits = []
    for size in (1, group):
        state = decodable.allocate(len(prompts), 9, 12)
        decodable.prefill(state, range(len(prompts)), prompts)
        feeds = [torch.tensor([p.prefix[-1] for p in prompts])]
        feeds += [1 + (torch.arange(len(prompts)) * 7 + 3 * n) % 16 for n in range(5)]
        logits.append(torch.stack([decodable.step(state, feed, size) for feed in feeds]))
    torch.testing.assert_close(logits[1], logits[0], rtol=0, atol=1e-5 if precision == "fp32" else 0.05)


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_copying_what_differs_is_copying_all(data: st.DataObject) -> None:
    """Rows of one source that have a beginning in common, each pair its own; swaps, copies of copies and all."""
    decodable: Any = select.decodable(tiny.transformer())
    beam = 4
    shared = data.draw(st.lists(st.integers(0, 5), min_size=beam, max_size=beam))
    texts = [[1, 3, 4, 5, 6, 7, 8][: 1 + n] + [9 + row] * (6 - n) for row, n in enumerate(shared)]
    destinations = data.draw(st.lists(st.integers(0, beam - 1), unique=True, min_size=1))
    sources = [data.draw(st.integers(0, beam - 1)) for _ in destinations]
    pairs = list(zip(sources, destinations, strict=True))
    since = [6 if a == b else 1 + min(shared[a], shared[b]) for a, b in pairs]  # the last of seven is not read yet
    rows, elsewhere = [2, 0, 3, 1], Prompt((9, 9), (2, 2, 2, 2))
    logits = []
    for copied_since in (None, since, [max(0, place - 1) for place in since]):
        state = decodable.allocate(6, 6, 12)
        decodable.prefill(state, [*rows, 4], [*(Prompt((3, 4, 5, 6), tuple(text)) for text in texts), elsewhere])
        decodable.copy(state, [rows[a] for a in sources], [rows[b] for b in destinations], copied_since)
        feeds = [torch.tensor([7, 7, 7, 7, 2]), torch.tensor([8, 8, 8, 8, 3])]
        logits.append(torch.stack([decodable.step(state, feed) for feed in feeds]))
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def test_a_copy_of_nothing_new_is_nothing() -> None:
    decodable: Any = select.decodable(tiny.transformer())
    state, _ = started(decodable, PROMPTS, 5)
    before = own_cache(state)
    decodable.copy(state, [1], [0], [int(state.host_lengths[1])])
    assert torch.equal(own_cache(state), before)


def poison(decodable: Any, state: TransformerState, value: float) -> None:
    for layer in (*state.own, *state.source):
        layer.both.fill_(value)


@pytest.mark.every_value
@pytest.mark.parametrize("value", [1e6, -1e15])
@pytest.mark.parametrize("name", ["post", "pre", "marian"])
def test_freed_slot_leaves_no_state(name: str, value: float) -> None:
    """Long and short rows together: whatever stands behind a row's own positions has no weight."""
    network = tiny.transformer(**tiny.OPTIONS[name])
    decodable: Any = select.decodable(network)
    state = decodable.allocate(len(RAGGED), 12, 16)
    poison(decodable, state, value)
    decodable.prefill(state, range(len(RAGGED)), RAGGED)
    expected = full(network, RAGGED, CONTINUATIONS)
    feeds = [torch.tensor([p.prefix[-1] for p in RAGGED]), *torch.tensor(CONTINUATIONS).unbind(1)]
    for number, feed in enumerate(feeds):
        torch.testing.assert_close(decodable.step(state, feed), expected[:, number], **TOLERANCE)


@pytest.mark.parametrize("prefilled", [True, False], ids=["prefilled", "moved in"])
def test_nan_sentence_does_not_affect_later_ones(prefilled: bool) -> None:
    """In fp16 a network may overflow; 0 · NaN is NaN, so weights of 0 alone would not keep it out."""
    network = tiny.transformer()
    decodable: Any = select.decodable(network)
    state = decodable.allocate(3, 12, 16)
    long = [Prompt((3, 4, 5, 6, 7, 8, 9), (1, 3, 4, 5, 6, 7)), Prompt((3, 4, 5, 6, 7, 8, 9), (1, 3, 4, 5, 6, 7))]
    decodable.prefill(state, [0, 1], long)
    for own, source in zip(state.own, state.source, strict=True):
        own.both[1, :5], source.both[1, :7] = float("nan"), float("nan")
    assert decodable.step(state, torch.tensor([7, 7]))[0].isfinite().all(), "nor its neighbour"
    decodable.copy(state, [1], [2])
    for row in (1, 2)[: 1 + prefilled]:
        decodable.prefill(state, [row], [Prompt((4,), (1,))])
    if not prefilled:
        decodable.copy(state, [1], [2])
    histories = [[1, 3, 4, 5, 6, 7, 2], [1], [1]]
    for _ in range(3):
        check_step(network, decodable, state, [long[0].source, (4,), (4,)], histories)
        for history in histories:
            history.append(5)


def test_caches_start_as_zeros_and_take_no_memory_before_they_are_used() -> None:
    decodable: Any = select.decodable(tiny.transformer(), "bf16")
    state = decodable.allocate(3, 5, 7)
    for cache in (own_cache(state), source_cache(state)):
        assert cache.dtype == torch.bfloat16
        assert not cache.any()
    assert own_cache(state).shape == (2, 3, 7, 2, 4, 4)
    assert source_cache(state).shape == (2, 3, 5, 2, 4, 4)
    decodable.prefill(state, [1], [Prompt((3, 4), (1, 5, 6))])
    assert own_cache(state)[:, 1, :2].all()
    assert source_cache(state)[:, 1, :2].all()
    assert not own_cache(state)[:, [0, 2]].any(), "nothing was written anywhere else"
    assert not own_cache(state)[:, 1, 2:].any()
    assert not source_cache(state)[:, 1, 2:].any()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    huge = zeros((1 << 14, 1 << 14), torch.float32, torch.device("cpu"))  # 1 GiB
    huge[5] = 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 200_000  # KiB


def test_states_of_one_network_are_independent() -> None:
    """Another state, or inspecting a longer text, makes the network grow its position table."""
    network = tiny.transformer()
    decodable: Any = select.decodable(network)
    state, histories = started(decodable, PROMPTS, 4)
    table = state.position_table
    sources = [p.source for p in PROMPTS]
    check_step(network, decodable, state, sources, histories)
    other = decodable.allocate(2, 3, 300)
    decodable.prefill(other, [0], [Prompt((3,), (1,) * 200)])
    tiny.attention(network, tiny.ids((1, 700), 0), tiny.ids((1, 3), 0))
    assert state.position_table is table
    assert len(network.position_vectors(1)) >= 700
    for history in histories:
        history.append(4)
    check_step(network, decodable, state, sources, histories)
    check_step(network, decodable, other, [(3,)], [[1] * 200])
