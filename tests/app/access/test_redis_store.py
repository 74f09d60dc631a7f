"""Limits and quotas that servers share, against a real redis-server."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from redis import Redis

from app.access import redis_store
from app.access.rate_limits import Charge, MemoryStore, Quota, Rate
from app.access.redis_store import RedisStore
from tests.app.access.redis_server import RedisServer, redis_server
from tests.app.access.test_memory_store import Clock
from tests.app.api.client import Client
from tests.app.api.keyed_client import OTHER, TEXTS, USE, bearer, keys_file

pytestmark = pytest.mark.slow
T = TypeVar("T")
MINUTE, DAY, MONTH = Rate(10, "minute"), Rate(25, "day"), Quota(100, "month")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture
def redis(server: RedisServer) -> Iterator[Redis]:
    with Redis.from_url(server.url) as client:
        client.flushall()
        client.script_flush()
        client.config_resetstat()
        yield client


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def whole() -> T:
        return await work()

    return asyncio.run(whole())


def commands(redis: Redis) -> dict[str, int]:
    result = redis.info("commandstats")
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in result.items()}


def test_redis_store_agrees_with_memory_store(redis: Redis, server: RedisServer) -> None:
    clock, rng = Clock(), random.Random(7)
    alone = MemoryStore(clock, clock)

    async def compare() -> int:
        together = RedisStore(server.url, clock=clock)
        charged = 0
        for _ in range(2000):
            clock.now_s += rng.choice([0, 0, 0.25, 1, 7, 60, 3000])
            rates = rng.choice([(MINUTE, DAY), (MINUTE,), (DAY,), ()])
            quotas = rng.choice([(MONTH,), ()])
            ask = Charge(rng.choice("ab"), rates, rng.randint(1, 4), quotas, rng.randint(0, 9))
            one, other = await together.take(ask), await alone.take(ask)
            assert one == other._replace(now_s=one.now_s)
            charged += one.charged
        assert await together.characters("a", "month") == await alone.characters("a", "month")
        await together.close()
        return charged

    assert 200 < run(compare) < 1900


def test_clock_of_redis_set_back_by_an_hour_refuses_for_a_window(redis: Redis, server: RedisServer) -> None:
    clock = Clock()

    async def charged() -> bool:
        counts = RedisStore(server.url, clock=clock)
        result = await counts.take(Charge("a", (MINUTE,), 5, (), 0))
        await counts.close()
        return result.charged

    assert [run(charged) for _ in range(3)] == [True, True, False]
    clock.now_s -= 3600
    assert not run(charged), "the jump grants nothing"
    clock.now_s += 120
    assert run(charged)


def test_charge_is_one_redis_command(redis: Redis, server: RedisServer) -> None:
    async def ask() -> None:
        counts = RedisStore(server.url)
        for _ in range(50):
            await counts.take(Charge("a", (MINUTE, DAY), 1, (MONTH,), 3))
        await counts.close()

    run(ask)
    result = commands(redis)
    assert result["eval"] == 50
    assert not {"evalsha", "exists", "script|load", "script|exists"} & result.keys()


def test_simultaneous_charges_of_several_servers_never_exceed_the_limit(redis: Redis, server: RedisServer) -> None:
    async def all_at_once() -> int:
        servers = [RedisStore(server.url) for _ in range(3)]
        ask = Charge("a", (Rate(100, "day"),), 1, (Quota(1000, "month"),), 2)
        taken = await asyncio.gather(*(each.take(ask) for each in servers for _ in range(200)))
        used = await servers[0].characters("a", "month")
        for each in servers:
            await each.close()
        assert used == 200
        return sum(each.charged for each in taken)

    assert run(all_at_once) == 100


def test_redis_keys_expire_and_contain_no_address(redis: Redis, server: RedisServer) -> None:
    async def ask() -> None:
        counts = RedisStore(server.url)
        await counts.take(Charge("address-1f", (MINUTE,), 1, (MONTH,), 3))
        await counts.give_back("address-1f", (MONTH,), 2)
        assert await counts.characters("address-1f", "month") == 1
        await counts.close()

    run(ask)
    rate, quota = sorted(redis.keys(), key=len)
    assert rate == b"parlance:{address-1f}:per-minute"
    assert quota.startswith(b"parlance:{address-1f}:characters:20")
    assert 60 < redis.ttl(rate) <= 120
    assert 61 * 86_400 < redis.ttl(quota) <= 62 * 86_400


def test_expired_or_smaller_counters_are_not_given_characters(redis: Redis, server: RedisServer) -> None:
    day = Quota(100, "day")

    async def give() -> None:
        counts = RedisStore(server.url)
        await counts.give_back("a", (MONTH, day), 50)
        assert redis.keys() == [], "nobody has taken any"
        await counts.take(Charge("a", (), 1, (MONTH, day), 60))
        redis.delete(*redis.keys("*characters:????-??"))
        await counts.take(Charge("a", (), 1, (MONTH,), 7))
        await counts.give_back("a", (MONTH, day), 50)
        assert await counts.characters("a", "month") == 7, "taken since"
        assert await counts.characters("a", "day") == 10
        await asyncio.gather(*(counts.give_back("a", (MONTH,), 3) for _ in range(5)))
        assert await counts.characters("a", "month") == 1
        assert (await counts.take(Charge("a", (), 1, (MONTH,), 100))).charged is False
        await counts.close()

    run(give)
    assert all(redis.ttl(key) > 0 for key in redis.scan_iter())


def test_without_redis_characters_are_given_back_to_the_memory_store(tmp_path: Path) -> None:
    async def outage(server: RedisServer) -> None:
        counts = RedisStore(server.url)
        server.stop()
        assert (await counts.take(Charge("a", (), 1, (MONTH,), 60))).charged
        assert not (await counts.take(Charge("a", (), 1, (MONTH,), 60))).charged
        await counts.give_back("a", (MONTH,), 50)
        assert await counts.characters("a", "month") == 10
        assert (await counts.take(Charge("a", (), 1, (MONTH,), 60))).characters == (70,)
        await counts.close()

    with redis_server(tmp_path) as server:
        run(lambda: outage(server))


def test_without_redis_requests_are_counted_in_memory_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "RETRY_PAUSE_S", 0.2)
    lost: list[None] = []

    async def outage(server: RedisServer) -> None:
        counts = RedisStore(server.url, lambda: lost.append(None))
        ask = Charge("a", (MINUTE,), 1, (), 0)
        assert (await counts.take(ask)).windows[0].remaining == 9
        server.stop()
        began = time.monotonic()
        results = await asyncio.gather(*(counts.take(ask) for _ in range(20)))
        assert time.monotonic() - began < 4, "they wait together"
        assert sum(result.charged for result in results) == 10, "this server's own count, from nothing"
        assert len(lost) == 1
        server.start()
        await asyncio.sleep(0.25)
        assert (await counts.take(ask)).windows[0].remaining == 9, "a Redis that has just started"
        await counts.close()

    with redis_server(tmp_path) as server, caplog.at_level(logging.WARNING):
        run(lambda: outage(server))
    assert [message.split(":")[0] for message in caplog.messages] == [
        "Redis does not answer (ConnectionError)",
        "Redis answers again",
    ]


def test_hanging_redis_delays_one_request_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(server: RedisServer) -> None:
        counts = RedisStore(server.url)
        ask = Charge("a", (MINUTE,), 1, (), 0)
        await counts.take(ask)
        server.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        assert (await counts.take(ask)).charged
        waited = time.monotonic() - began
        assert 0.2 < waited < 5
        began = time.monotonic()
        for _ in range(5):
            assert (await counts.take(ask)).charged
        assert time.monotonic() - began < 1.2, "for a while nobody asks it"
        server.process.send_signal(signal.SIGCONT)
        await counts.close()

    with redis_server(tmp_path) as server:
        run(lambda: hang(server))


def test_unreachable_redis_is_counted_as_a_metric() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        client = Client(redis_url=f"redis://127.0.0.1:{probe.getsockname()[1]}/0", rate_limit="2/day")
        statuses = [client.post("/translate", json=TEXTS).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert "parlance:shared_counts_failed_total 1.0" in client.get("/metrics").text


def test_two_services_share_limits_and_quotas(redis: Redis, server: RedisServer, tmp_path: Path) -> None:
    file = str(keys_file(tmp_path, rate_limit="none", quota="10/month"))
    services = [Client(redis_url=server.url, keys_file=file, rate_limit="3/day") for _ in range(2)]

    async def ask() -> list[list[int]]:
        rows = []
        for key in (USE, OTHER):
            row = []
            for turn in range(4):
                client = services[turn % 2]
                transport = httpx.ASGITransport(app=client.app)
                async with httpx.AsyncClient(transport=transport, base_url="http://parlance") as http:
                    row.append((await http.post("/translate", json=TEXTS, headers=bearer(key))).status_code)
            rows.append(row)
        for client in services:
            await client.app.state.services.access.close()
        return rows

    assert run(ask) == [[200, 200, 200, 429], [200, 200, 429, 429]]
    assert not [key for key in redis.scan_iter() if USE.encode() in key or b"shop" in key]
