"""Usage counted in one process."""

from __future__ import annotations

import asyncio

import pytest

from app.access.rate_limits import Charge, MemoryStore, Quota, Rate
from tests.app.access.test_rate_limits import NOON

MINUTE, HOUR = Rate(10, "minute"), Rate(15, "hour")
MONTH = Quota(100, "month")


class Clock:
    def __init__(self) -> None:
        self.now_s = NOON

    def __call__(self) -> float:
        return self.now_s


def take(counts: MemoryStore, requests: int = 1, characters: int = 0, caller: str = "a") -> tuple[bool, list[int]]:
    result = asyncio.run(counts.take(Charge(caller, (MINUTE, HOUR), requests, (MONTH,), characters)))
    return result.charged, [window.remaining for window in result.windows] + [*result.characters]


def test_charge_is_all_or_nothing() -> None:
    clock = Clock()
    counts = MemoryStore(clock, clock)
    assert take(counts, 4, 30) == (True, [6, 11, 30])
    assert take(counts, 7, 1) == (False, [6, 11, 30]), "beyond the minute's: nothing of the hour's or month's is taken"
    assert take(counts, 1, 71) == (False, [6, 11, 30]), "beyond the month's: nothing of the minute's is taken"
    assert take(counts, 6, 70) == (True, [0, 5, 100])
    clock.now_s += 120
    assert take(counts, 6, 0) == (False, [10, 5, 100]), "beyond the hour's"
    assert take(counts, 5, 0) == (True, [5, 0, 100])


def test_callers_are_counted_separately() -> None:
    counts = MemoryStore(clock := Clock(), clock)
    assert take(counts, 10)[0]
    assert not take(counts)[0]
    assert take(counts, 10, caller="b")[0]


def test_windows_and_quotas_renew_over_time() -> None:
    clock = Clock()
    counts = MemoryStore(clock, clock)
    assert take(counts, 10, 90) == (True, [0, 5, 90])
    clock.now_s += 59
    assert not take(counts)[0]
    clock.now_s += 2
    assert take(counts) == (True, [0, 4, 90])
    clock.now_s += 2 * 3600
    assert take(counts) == (True, [9, 14, 90])
    clock.now_s += 9 * 86_400  # December
    assert take(counts, 1, 5) == (True, [9, 14, 5])


def test_simultaneous_charges_never_exceed_the_limit() -> None:
    counts = MemoryStore(clock := Clock(), clock)

    async def all_at_once() -> list[bool]:
        asks = [Charge("a", (MINUTE,), 1, (), 0) for _ in range(500)]
        return [taken.charged for taken in await asyncio.gather(*map(counts.take, asks))]

    assert sum(asyncio.run(all_at_once())) == 10


@pytest.mark.parametrize("jump_s", [-3600, -60, 60, 3600])
def test_rates_follow_no_jump_of_the_time_of_day(jump_s: float) -> None:
    clock, steady = Clock(), Clock()
    counts = MemoryStore(clock, steady)
    assert take(counts, 10)[0]
    clock.now_s += jump_s
    assert not take(counts)[0], "a jump grants nothing"
    steady.now_s += 120
    assert take(counts)[0], "nor does it refuse for as long as it is"


def test_flood_of_addresses_is_bounded_and_forgotten() -> None:
    clock = Clock()
    counts = MemoryStore(clock, clock, max_callers=1000)

    async def flood(callers: list[str]) -> None:
        for caller in callers:
            await counts.take(Charge(caller, (MINUTE,), 1, (), 0))

    asyncio.run(flood([f"address-{n}" for n in range(5000)]))
    assert len(counts.windows[60]) == 1000
    clock.now_s += 120
    asyncio.run(flood([f"later-{n}" for n in range(600)]))
    assert len(counts.windows[60]) == 600


def test_characters_are_given_back() -> None:
    counts = MemoryStore(clock := Clock(), clock)
    take(counts, 1, 60)
    asyncio.run(counts.give_back("a", (MONTH,), 50))
    assert asyncio.run(counts.characters("a", "month")) == 10
    asyncio.run(counts.give_back("a", (MONTH,), 50))
    assert asyncio.run(counts.characters("a", "month")) == 0
