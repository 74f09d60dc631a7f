"""Limits, usage, imports and metrics of several front ends are those of one server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from app import errors
from app.access.key_file import ANONYMOUS, Caller
from app.access.memory_store import Charge
from app.access.rate_limits import Quota, Rate
from app.engine.registry.model_import import ModelImport
from app.front_ends import codec
from app.front_ends.engine_server import EngineServer
from tests.app.api.fake_engine import FakeEngine
from tests.app.front_ends.over_sockets import FrontEnd, front_end, own_parts, until

MINUTE, MONTH = Rate(3, "minute"), Quota(100, "month")
ANNA = Caller("anna", b"x" * 32)


def with_two(test: Callable[[FrontEnd, FrontEnd], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        engine = FakeEngine()
        server = EngineServer(engine, own_parts(engine))
        async with front_end(engine, server) as one, front_end(engine, server) as two:
            await test(one, two)

    asyncio.run(run())


def test_rates_and_quotas_are_counted_once() -> None:
    async def check(one: FrontEnd, two: FrontEnd) -> None:
        charge = Charge("key", (MINUTE,), 1, (MONTH,), 40)
        first = await one.shared.counts.take(charge)
        assert (first.charged, first.windows[0].current, first.windows[0].rate, first.characters) == (
            True,
            1,
            MINUTE,
            (40,),
        )
        assert (await two.shared.counts.take(charge)).characters == (80,)
        refused = await one.shared.counts.take(charge)
        assert (refused.charged, refused.windows[0].used, refused.characters) == (False, 2, (80,))
        await one.shared.counts.give_back("key", (MONTH,), 30)
        assert await two.shared.counts.characters("key", "month") == 50

    with_two(check)


def test_usage_without_a_key_is_counted_once() -> None:
    async def check(one: FrontEnd, two: FrontEnd) -> None:
        await one.shared.usage.count(ANONYMOUS, 5)
        await two.shared.usage.count(ANONYMOUS, 7)
        await two.shared.usage.count(ANNA, 100)
        assert [await each.shared.usage.add(0) for each in (one, two)] == [12, 12]

    with_two(check)


def test_imports_are_seen_by_every_front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> str | None:
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr("app.engine.registry.model_import.ModelImporter._import", never)

    async def check(one: FrontEnd, two: FrontEnd) -> None:
        made = await one.shared.importer.start("de-en")
        assert (made, made.seconds_left) == (ModelImport(1, "de-en"), None)
        assert await two.shared.importer.imports() == [made]
        with pytest.raises(errors.ModelConflict, match="is being imported already"):
            await two.shared.importer.start("de-en")
        assert (await two.shared.importer.cancel(1)).state == "cancelled"
        assert [each.state for each in await one.shared.importer.imports()] == ["cancelled"]
        with pytest.raises(errors.UnknownModel):
            await one.shared.importer.cancel(7)
        await one.shared.importer.stop()  # a front end that ends leaves the imports of the service alone

    with_two(check)


async def counts(connected: FrontEnd, *, open_metrics: bool = False) -> dict[tuple[str, ...], float]:
    page = (await connected.shared.metrics.page(open_metrics)).decode()
    assert page.endswith("# EOF\n") == open_metrics
    if open_metrics:
        return {}
    samples = [sample for family in parse(page) for sample in family.samples if sample.value]
    return {(s.name.removeprefix("parlance:"), *s.labels.values()): s.value for s in samples}


def answer(connected: FrontEnd, times: int) -> None:
    for _ in range(times):
        connected.shared.metrics.http_series("/translate", "POST", "200").inc()


def test_page_of_metrics_has_the_requests_of_all_front_ends_up_to_now() -> None:
    async def check(one: FrontEnd, two: FrontEnd) -> None:
        for total in (5, 10):
            answer(one, 2)
            answer(two, 3)
            two.shared.metrics.refused(errors.TextTooLong("No."))
            for each in (one, two):
                found = await counts(each)
                assert found["http_requests_total", "POST", "/translate", "200"] == total
                assert found["request_refused_total", "text_too_long"] == total // 5
                assert found["device_ready", "cpu"] == 1
        await counts(one, open_metrics=True)

    with_two(check)


def test_counts_of_a_front_end_that_ended_stay() -> None:
    async def run() -> None:
        engine = FakeEngine()
        server = EngineServer(engine, own_parts(engine))
        async with front_end(engine, server) as other:
            async with front_end(engine, server) as connected:
                answer(connected, 4)
            await until(lambda: len(server.front_ends) == 1)
            assert (await counts(other))["http_requests_total", "POST", "/translate", "200"] == 4

    asyncio.run(run())


def test_page_of_metrics_does_not_wait_for_a_front_end_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.front_ends.engine_server.REPORT_S", 0.05)

    async def run() -> None:
        server = EngineServer(engine := FakeEngine(), own_parts(engine))
        ours, theirs = socket.socketpair()
        hanging = await server.connect(ours)
        theirs.sendall(codec.frame([codec.encode_value(codec.Listening())]))  # and nothing after that
        await until(lambda: hanging.listening)
        async with front_end(engine, server) as connected:
            answer(connected, 2)
            assert (await counts(connected))["http_requests_total", "POST", "/translate", "200"] == 2
        theirs.close()
        await until(lambda: not server.front_ends)

    asyncio.run(run())
