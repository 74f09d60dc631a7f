"""Rows that take the places of others, natively, against the copy in PyTorch."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from models.backends.native.int8_transformer import NativeTransformer
from models.backends.select import prepared
from models.backends.torch.kv_cache import TransformerState
from models.backends.torch.transformer_step import EagerTransformer
from models.interface import Prompt
from tests.models import tiny

pytestmark = pytest.mark.usefixtures("library")
SLOTS, SOURCE, TARGET = 9, 8, 12


def native() -> NativeTransformer:
    found = tiny.transformer().decodable("int8")
    assert isinstance(found, NativeTransformer)
    return found


def started(network: NativeTransformer | EagerTransformer) -> TransformerState:
    """Rows of different lengths, the last one free; the caches hold what can be told apart."""
    state = network.allocate(SLOTS, SOURCE, TARGET)
    prompts = [Prompt((3,) * (1 + n % SOURCE), (1, *(4,) * n)) for n in range(SLOTS - 1)]
    network.prefill(state, range(SLOTS - 1), prompts)
    for cache in (state.cache, state.source_cache):
        cache.copy_(torch.arange(cache.numel()).view(cache.shape))
    return state


def moves(chance: random.Random) -> tuple[list[int], list[int]]:
    """Some rows into others, each of which takes one: cycles, chains and rows that several take."""
    written = chance.sample(range(SLOTS), chance.randint(1, SLOTS))
    return [chance.randrange(SLOTS - 1) for _ in written], written


def same_where_read(found: TransformerState, expected: TransformerState) -> None:
    assert np.array_equal(found.host_lengths, expected.host_lengths)
    assert np.array_equal(found.host_source_lengths, expected.host_source_lengths)
    assert found.lengths.tolist() == found.host_lengths.tolist()
    assert found.source_lengths.tolist() == found.host_source_lengths.tolist()
    for row in range(SLOTS):
        read, source = found.host_lengths[row], found.host_source_lengths[row]
        assert torch.equal(found.cache[:, row, :read], expected.cache[:, row, :read])
        assert torch.equal(found.source_cache[:, row, :source], expected.source_cache[:, row, :source])


@pytest.mark.parametrize("seed", range(12))
def test_rows_take_the_places_of_others_as_if_all_were_read_first(seed: int) -> None:
    chance, network = random.Random(seed), native()
    slow = EagerTransformer(*prepared(tiny.transformer(), "fp32"))
    found, expected = started(network), started(slow)
    for _ in range(3):
        sources, destinations = moves(chance)
        network.copy(found, sources, destinations)
        slow.copy(expected, sources, destinations)
        same_where_read(found, expected)


@pytest.mark.parametrize("seed", range(12))
def test_only_the_positions_that_differ_are_copied(seed: int) -> None:
    chance, network = random.Random(seed), native()
    state = started(network)
    sources, destinations = moves(chance)
    since = [chance.randint(0, int(state.host_lengths[row])) for row in sources]
    before = state.cache.clone(), state.source_cache.clone(), state.host_lengths.copy()
    network.copy(state, sources, destinations, since)
    expected = before[0].clone()
    for source, destination, first in zip(sources, destinations, since, strict=True):
        end = int(before[2][source])
        expected[:, destination, first:end] = before[0][:, source, first:end]
    assert torch.equal(state.cache, expected)
    assert torch.equal(state.source_cache, before[1])
    assert np.array_equal(state.host_lengths, before[2])


def test_no_row_outside_of_the_slots_is_touched() -> None:
    network = native()
    state = started(network)
    before = state.cache.clone()
    for sources, destinations, since in (
        ([SLOTS], [0], None),
        ([0], [-1], None),
        ([1], [SLOTS], [0]),
        ([1], [0], [-1]),
    ):
        with pytest.raises(IndexError):
            network.copy(state, sources, destinations, since)
    assert torch.equal(state.cache, before)
