"""Clients that leave at any moment leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.engine.async_engine import AsyncEngine
from app.engine.interface import GenerationRequest
from tests import tiny
from tests.app.engine.engine_thread import Running, options
from tests.faults.clients import (
    ask,
    busy_gauges,
    connected,
    descriptors,
    in_flight,
    read_to_end,
    resident_mib,
    send,
    until,
)
from tests.request_builders import generation_request, translation_request
from tests.serving import Server, serving
from tests.test_end_to_end import wait_for
from tests.test_scraping import Samples, scrape

pytestmark = pytest.mark.faults
LYRICIST = ("cpu", "tiny-lyrics")
LONG = {"prompt": "分开", "max_new_tokens": 2000, "seed": 3}
PROMPT_TOKENS = 2000
WARM_UP, CYCLES, TOGETHER = 2000, 10_000, 32
STALLED_S = 60.0


def left(found: Samples) -> float:
    return found["request_cancelled_total", "cpu", "tiny-lyrics", "disconnect"]


@pytest.fixture(scope="module")
def server(slow_lyricist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With 16 slots."""
    settings = {"MAX_NEW_TOKENS": "2000", "SLOTS_PER_MODEL": "16", "STREAM_INTERVAL_MS": "0"}
    settings["WORKER_HANG_TIMEOUT_S"] = "60"  # the prefill of 2,000 tokens takes 5 to 10 s
    with serving(slow_lyricist, tmp_path_factory.mktemp("server"), **settings) as server:
        yield server


def computed(server: Server, before: Samples) -> int:
    """Tokens read and written since for cancelled requests, once the devices are idle and have reported."""
    until(lambda samples: not busy_gauges(samples), server)
    beats = [scrape(server)["step_duration_seconds_count", *LYRICIST]]
    ask(server, {**LONG, "max_new_tokens": 5})
    result = until(lambda found: found["step_duration_seconds_count", *LYRICIST] >= beats[0] + 5, server)
    return int(result["cancelled_tokens_total", *LYRICIST] - before["cancelled_tokens_total", *LYRICIST])


def test_disconnect_while_queued(server: Server) -> None:
    before = scrape(server)
    with connected(server) as running, connected(server) as queued:
        send(running, {**LONG, "n": 16, "stream": True})
        running.getresponse()
        send(queued, {**LONG, "n": 8})
        until(lambda found: found["num_requests_waiting", *LYRICIST] == 8, server)
        queued.close()
        result = until(lambda found: in_flight(found) == 16, server)
        assert left(result) - left(before) == 8
        until(lambda found: found["num_requests_running", *LYRICIST] == 16, server)  # at the next beat, all of them
    until(lambda samples: left(samples) - left(before) == 24, server)
    assert 0 < computed(server, before) < 16 * 1900


def test_disconnect_during_prefill(server: Server) -> None:
    before = scrape(server)
    with connected(server) as connection:
        send(connection, {**LONG, "prompt": "分" * PROMPT_TOKENS})
        until(lambda found: in_flight(found) == 1, server)
    until(lambda samples: left(samples) - left(before) == 1, server)
    tokens = computed(server, before)
    print(f"left in the prefill: {tokens - PROMPT_TOKENS} steps")
    assert PROMPT_TOKENS <= tokens <= PROMPT_TOKENS + 2


@pytest.mark.parametrize("stream", [False, True])
def test_disconnect_while_the_answer_is_written(stream: bool, server: Server) -> None:
    before = scrape(server)
    with connected(server) as connection:
        send(connection, {**LONG, "n": 4, "stream": stream})
        if stream:
            connection.getresponse().readline()
        until(lambda found: in_flight(found) == 4, server)
    until(lambda samples: left(samples) - left(before) == 4, server)
    tokens = computed(server, before)
    print(f"left midway, stream {stream}: {tokens // 4 - 2} steps")
    assert 0 < tokens < 4 * 1000


def test_400_clients_disconnect(server: Server) -> None:
    right = ask(server, LONG).text
    (worker,) = server.workers()
    rng = random.Random(8)
    plans = [(rng.choice((1, 1, 4, 16)), rng.random() < 0.5, rng.uniform(0, 0.03)) for _ in range(500)]

    def leave(plan: tuple[int, bool, float]) -> None:
        n, stream, after_s = plan
        with connected(server) as connection:
            send(connection, {**LONG, "n": n, "stream": stream})
            if stream:
                connection.getresponse().readline()
            time.sleep(after_s)

    def quiet() -> list[float]:
        """Descriptors of the server and of its device process, and their memory."""
        until(lambda samples: not busy_gauges(samples) and not in_flight(samples), server)
        pids = (server.process.pid, worker)
        return [*(descriptors(pid) for pid in pids), *(resident_mib(pid) for pid in pids)]

    with ThreadPoolExecutor(6) as clients:
        list(clients.map(leave, plans[:100]))
        before = quiet()
        list(clients.map(leave, plans[100:]))
    wait_for(
        lambda: all(b <= a for a, b in zip(before[:2], quiet()[:2], strict=True))
    )  # a connection closes some time after its client has left
    growth = [b - a for a, b in zip(before, quiet(), strict=True)]
    print(f"400 left: descriptors {growth[0]:+} and {growth[1]:+}, memory {growth[2]:+.1f} and {growth[3]:+.1f} MiB")
    assert growth[2] < 8
    assert growth[3] < 8
    with connected(server) as connection:
        for stream in (False, True, False):
            send(connection, {**LONG, "stream": stream})
            assert read_to_end(connection).text == right


def test_closed_stream_stops_decoding_within_two_steps(slow_lyricist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what its reader has heard: the step that is going on, and the one that began while it was cancelled."""
    # each token is sent at once, and a beat is due four times within the silence timeout
    running = Running(options(slow_lyricist, worker_hang_timeout_s=2.0, stream_interval_ms=0.0))
    try:
        running.ready()
        wasted, steps = list[int](), list[int]()
        monkeypatch.setattr(running.pool.admission, "wasted", lambda model, tokens: wasted.append(tokens))

        async def leave() -> int:
            read_to_end = 0
            async with running.pool.stream_generation(
                generation_request("分开", max_new_tokens=2000, seed=1)
            ) as stream:
                async for delta in stream.deltas():
                    read_to_end += len(delta.text)
                    if read_to_end >= 20:
                        break
            return read_to_end

        for _ in range(15):
            wasted.clear()
            read_to_end = running.do(leave())
            running.until(lambda: sum(wasted) > 0, "nothing was said of what was wasted")
            steps.append(sum(wasted) - 2 - read_to_end)
        print(f"steps after a reader left: {sorted(steps)}")
        assert min(steps) >= 0
        assert statistics.median(steps) <= 2  # not all: the machine may take the front end's core away for a while
    finally:
        running.close()


class Held(NamedTuple):
    """What the pool, its process and its device process hold."""

    tasks: int
    descriptors: int
    device_descriptors: int
    mib: float
    device_mib: float


def held(running: Running) -> Held:
    """Once nothing is in work any more."""
    pool = running.pool
    device = pool.supervisor.devices["cpu"]
    running.until(lambda: not pool.dispatcher.pending, "a waiter was left")
    running.until(lambda: not any(lane.rows or lane.waiting for lane in lanes(pool)), "a slot was left")
    for model in (pool.admission.all, *pool.admission.models.values()):
        assert (pool.admission.tokens, model.requests, model.work, model.rows) == (0, 0, 0, 0)
    assert device.outstanding_tokens == 0
    assert not pool.registry.users
    assert not any(pool.metrics.by_model.inflight.values())
    for family in pool.metrics.collect():
        assert family.name in ("parlance:slots", "parlance:device_report_age_seconds") or not any(
            sample.value for sample in family.samples
        ), family
    assert device.process is not None
    assert device.process.pid is not None

    async def tasks() -> int:
        return len(asyncio.all_tasks())

    gc.collect()
    worker = device.process.pid
    return Held(
        running.do(tasks()),
        descriptors(os.getpid()),
        descriptors(worker),
        resident_mib(os.getpid()),
        resident_mib(worker),
    )


def lanes(pool: AsyncEngine) -> list[Any]:
    """As the device has said after everything that it was sent: what it says is as old as its last beat."""
    time.sleep(1.5)
    return [lane for versions in pool.metrics.statistics["cpu"].values() for lane in versions]


async def cancel_one(pool: AsyncEngine, rng: random.Random) -> None:
    """At any moment: before it is sent, while it waits, in its prefill, among its steps, at its end."""
    lyrics = generation_request("分开", max_new_tokens=rng.choice((5, 500)), seed=1, n=rng.choice((1, 2)))
    match rng.randrange(3):
        case 0:
            task: asyncio.Task[Any] = asyncio.create_task(pool.generate(lyrics))
        case 1:
            task = asyncio.create_task(
                pool.translate([translation_request(text, "de", "en") for text in tiny.GERMAN[:2]])
            )
        case _:
            task = asyncio.create_task(read(pool, lyrics, rng.randrange(20)))
    for _ in range(rng.randrange(4)):
        await asyncio.sleep(0)
    if rng.random() < 0.8:
        await asyncio.sleep(rng.uniform(0, 0.02))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def read(pool: AsyncEngine, request: GenerationRequest, most: int) -> None:
    """So many texts of a stream, which is then left."""
    async with pool.stream_generation(request) as stream:
        count = 0
        async for _ in stream.deltas():
            count += 1
            if count >= most:
                return


def cancel_many(running: Running, cycles: int, seed: int) -> None:
    """Fails where none is cancelled for a while: how long all of them take is the machine's affair."""
    cancelled = 0

    async def cancel_on(number: int) -> None:
        nonlocal cancelled
        rng = random.Random(f"{seed}-{number}")
        for _ in range(cycles // TOGETHER):
            await cancel_one(running.pool, rng)
            cancelled += 1

    async def cancel_all() -> None:
        await asyncio.gather(*map(cancel_on, range(TOGETHER)))

    work = asyncio.run_coroutine_threadsafe(cancel_all(), running.loop)
    before = -1
    while not work.done():
        assert cancelled > before, f"none was cancelled for {STALLED_S} s after {cancelled}"
        before = cancelled
        wait([work], timeout=STALLED_S)
    work.result()


def test_ten_thousand_cancelled_requests_leak_nothing(tiny_checkpoints: Path) -> None:
    # queue age must refuse no request: its estimate is inaccurate in the first seconds
    running = Running(options(tiny_checkpoints, max_queue_age_s=3600.0))
    try:
        running.ready()
        request = generation_request("分开", max_new_tokens=200, seed=5)
        right = running.do(running.pool.generate(request)).continuations[0].text
        cancel_many(running, WARM_UP, 1)
        before = held(running)
        cancel_many(running, CYCLES, 2)
        after = held(running)
        print(f"{CYCLES} cancelled requests: {before} before, {after} after")
        assert after.tasks == before.tasks
        assert after.descriptors <= before.descriptors
        assert after.device_descriptors <= before.device_descriptors
        assert after.mib - before.mib < 16
        assert after.device_mib - before.device_mib < 16
        assert running.do(running.pool.generate(request)).continuations[0].text == right
    finally:
        running.close()
