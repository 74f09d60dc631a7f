"""Rows that take the places of others, natively, against the copy in PyTorch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backends import select
from models.backends.native.int8_transformer import NativeState, NativeTransformer
from models.backends.select import prepared
from models.backends.torch.kv_cache import TransformerState
from models.backends.torch.transformer_step import EagerTransformer
from models.interface import Decodable, Prompt
from tests.models import tiny
from tests.models.stepping import own_cache, source_cache

pytestmark = pytest.mark.usefixtures("library")
SLOTS, SOURCE, TARGET = 9, 8, 12


def native() -> NativeTransformer:
    result = select.decodable(tiny.transformer(), "int8")
    assert isinstance(result, NativeTransformer)
    return result


def prefilled(network: Decodable) -> Any:
    """Rows of different lengths, the last one free."""
    state = network.allocate(SLOTS, SOURCE, TARGET)
    prompts = [Prompt((3,) * (1 + n % SOURCE), (1, *(4,) * n)) for n in range(SLOTS - 1)]
    network.prefill(state, range(SLOTS - 1), prompts)
    return state


def numbered(shape: torch.Size) -> Tensor:
    """Values that float16 holds, and which differ in neighbouring positions, rows and layers."""
    return torch.arange(shape.numel()).remainder(2039).view(shape).float()


def started(network: NativeTransformer) -> NativeState:
    state: NativeState = prefilled(network)
    for cache in (state.cache, state.source_cache):
        cache.copy_(numbered(cache.shape))
    return state


def started_in_pytorch(network: EagerTransformer) -> TransformerState:
    """With the same numbers in the same places."""
    state: TransformerState = prefilled(network)
    for layers, cache in ((state.own, own_cache(state)), (state.source, source_cache(state))):
        for layer, values in zip(layers, numbered(cache.shape), strict=True):
            layer.both.copy_(values.flatten(2))
    return state


def moves(rng: random.Random) -> tuple[list[int], list[int]]:
    """Row copies with distinct destinations: cycles, chains, and rows that are copied several times."""
    written = rng.sample(range(SLOTS), rng.randint(1, SLOTS))
    return [rng.randrange(SLOTS - 1) for _ in written], written


def same_where_read(found: NativeState, expected: TransformerState) -> None:
    assert np.array_equal(found.lengths, expected.host_lengths)
    assert np.array_equal(found.source_lengths, expected.host_source_lengths)
    own, sources = own_cache(expected), source_cache(expected)
    for row in range(SLOTS):
        read, source = found.lengths[row], found.source_lengths[row]
        assert torch.equal(found.cache[:, row, :read], own[:, row, :read])
        assert torch.equal(found.source_cache[:, row, :source], sources[:, row, :source])


@pytest.mark.every_value
@pytest.mark.parametrize("seed", range(12))
def test_rows_are_copied_as_if_all_were_read_first(seed: int) -> None:
    rng, network = random.Random(seed), native()
    slow = EagerTransformer(prepared(tiny.transformer(), "fp32"))
    result, expected = started(network), started_in_pytorch(slow)
    for _ in range(3):
        sources, destinations = moves(rng)
        network.copy(result, sources, destinations)
        slow.copy(expected, sources, destinations)
        same_where_read(result, expected)


@pytest.mark.every_value
@pytest.mark.parametrize("seed", range(12))
def test_only_the_positions_that_differ_are_copied(seed: int) -> None:
    rng, network = random.Random(seed), native()
    state = started(network)
    sources, destinations = moves(rng)
    since = [rng.randint(0, int(state.lengths[row])) for row in sources]
    before = state.cache.clone(), state.source_cache.clone(), state.lengths.copy()
    network.copy(state, sources, destinations, since)
    expected = before[0].clone()
    for source, destination, first in zip(sources, destinations, since, strict=True):
        end = int(before[2][source])
        expected[:, destination, first:end] = before[0][:, source, first:end]
    assert torch.equal(state.cache, expected)
    assert torch.equal(state.source_cache, before[1])
    assert np.array_equal(state.lengths, before[2])


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
