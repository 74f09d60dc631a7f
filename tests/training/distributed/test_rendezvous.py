"""Processes that find each other in a store that remembers the dead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import TCPStore
from torch.distributed.distributed_c10d import Store

from training.distributed.torchrun import join_round
from training.errors import TrainingError

SOON = timedelta(seconds=30)


@pytest.fixture
def store() -> Store:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


def met(arrivals: list[Future[Store]]) -> list[Store]:
    return [arrival.result() for arrival in arrivals]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_second_start_sees_no_keys_of_the_first(store: Store, pool: ThreadPoolExecutor, order: tuple[int, ...]) -> None:
    first = met([pool.submit(join_round, store, rank, 3, SOON) for rank in order])
    first[0].set("address", "of a dead process")
    assert all(part.get("address") == b"of a dead process" for part in first)
    second = met([pool.submit(join_round, store, rank, 3, SOON) for rank in order])
    assert not any(part.check(["address"]) for part in second)
    second[1].set("address", "new")
    assert all(part.get("address") == b"new" for part in second)


def test_process_that_died_while_waiting_is_not_in_the_round(store: Store, pool: ThreadPoolExecutor) -> None:
    """Rank 0 first calls the word of a process that is no more."""
    store.set("here/1", "of the dead")
    early = pool.submit(join_round, store, 0, 2, SOON)
    while not store.check(["call"]):  # `wait` would keep the other threads from the store
        time.sleep(0.01)
    assert not early.done()
    late = pool.submit(join_round, store, 1, 2, SOON)
    here, there = met([early, late])
    here.set("greeting", "hello")
    assert there.get("greeting") == b"hello"


def test_missing_process_is_a_timeout(store: Store) -> None:
    with pytest.raises(TrainingError, match="Not all 2 processes"):
        join_round(store, 0, 2, timedelta(seconds=0.1))
