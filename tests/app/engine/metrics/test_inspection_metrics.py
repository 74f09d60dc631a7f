"""An inspection that first searches for its translation is counted as one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from app import main
from app.engine.protocol import messages as m
from app.errors import EngineFailed
from app.settings import Settings
from models.inspection.results import Walkthrough
from models.inspection.selection import WalkthroughFocus
from tests.app.engine.engine_thread import Running
from tests.app.engine.scripted_device import TIMES, Scripted, finished, play
from tests.request_builders import decode_message, inspect_attention

SOURCE = [5, 6, 7, 3]
SEARCH = decode_message(0, "demo@2", SOURCE, [2], 0.0, 9)
LOOKS = {
    "attention": (
        inspect_attention(0, "demo@2", SOURCE, [2, 5], [5, 3]),
        lambda i: m.AttentionInspected(i, {}),
    ),
    "walkthrough": (
        m.InspectWalkthrough(0, "demo@2", SOURCE, [2, 5], WalkthroughFocus("decoder", 0, 0, 0, 8, 8)),
        lambda i: m.WalkthroughInspected(i, Walkthrough(0, 0, 0, ())),
    ),
}


async def searched(on: Scripted) -> None:
    search = asyncio.create_task(on.dispatcher.ask(SEARCH, 8, phase="search"))
    await asyncio.sleep(0)
    assert (on.in_flight(), on.value("prompt_tokens_total")) == (1, 4)
    on.dispatcher.reply(finished(1, tokens=3, timing=m.Timing(0.25, 0.5, 2.5)))
    await search
    assert (on.in_flight(), on.ends(), on.value("generation_tokens_total")) == (0, {}, 3)


@pytest.mark.parametrize("kind", LOOKS)
def test_ablation_search_counts_tokens_but_no_request(kind: str) -> None:
    message, reply_of = LOOKS[kind]

    async def scene(on: Scripted) -> None:
        await searched(on)
        look = asyncio.create_task(on.dispatcher.ask(message, 6, phase="inspection"))
        await asyncio.sleep(0)
        assert on.in_flight() == 1
        on.dispatcher.reply(reply_of(2))
        await look

    on = play(scene)
    assert (on.in_flight(), on.ends()) == (0, {kind: 1})
    assert (on.value("prompt_tokens_total"), on.value("generation_tokens_total")) == (4, 3)
    assert [on.value(f"{name}_count") for name in (*TIMES, "e2e_request_latency_seconds")] == [0, 0, 0, 0]


@pytest.mark.parametrize(("phase", "failed"), [("search", 1), ("inspection", 2)])
def test_failure_of_any_phase_counts_one_failed_request(phase: Any, failed: int) -> None:
    async def scene(on: Scripted) -> None:
        message: Any = SEARCH
        if phase == "inspection":
            await searched(on)
            message = LOOKS["attention"][0]
        task = asyncio.create_task(on.dispatcher.ask(message, 6, phase=phase))
        await asyncio.sleep(0)
        on.dispatcher.reply(m.Failed(failed, "engine_failed", "It failed."))
        with pytest.raises(EngineFailed):
            await task

    on = play(scene)
    assert (on.ends(), on.in_flight(), on.value("prompt_tokens_total")) == ({"engine_failed": 1}, 0, 4)


def samples(text: str) -> dict[str, float]:
    """All counters of tiny-de-en and of HTTP."""
    return {
        ", ".join(
            [sample.name.removeprefix("parlance:"), *sorted(v for v in sample.labels.values() if v != "cpu")]
        ): sample.value
        for family in parse(text)
        if family.type == "counter"
        for sample in family.samples
        if sample.labels.get("model_name") == "tiny-de-en" or "route" in sample.labels
    }


@pytest.mark.slow  # a pool of its own
def test_metrics_of_four_inspections(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "Metrics", lambda: running.pool.metrics)
    app = main.create_app(Settings(), running.pool)
    own, forced = {"source": "ich möchte ein bier"}, {"source": "ich möchte ein bier", "target": "i want a beer"}

    async def scraped() -> tuple[str, list[httpx.Response], str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://parlance") as client:
            before = (await client.get("/metrics")).text
            looks: list[Awaitable[httpx.Response]] = [
                client.post(path, json={**body, "model": "tiny-de-en"})
                for path in ("/attention", "/walkthrough")
                for body in (own, forced)
            ]
            answers = [await look for look in looks]
            return before, answers, (await client.get("/metrics")).text

    before, answers, after = running.do(scraped())
    assert [answer.status_code for answer in answers] == [200] * 4
    was, written = samples(before), sum(not token["special"] for token in answers[0].json()["target"]["output_tokens"])
    moved = {name: value - was.get(name, 0) for name, value in samples(after).items() if value != was.get(name, 0)}
    device_side = {name for name in moved if name.startswith(("step_", "prefill_"))}  # reported with the next beat
    assert {name: value for name, value in moved.items() if name not in device_side} == {
        "request_success_total, attention, tiny-de-en": 2,
        "request_success_total, tiny-de-en, walkthrough": 2,
        "prompt_tokens_total, tiny-de-en": 4 * 5,
        "generation_tokens_total, tiny-de-en": 2 * written,
        "http_requests_total, /attention, 200, POST": 2,
        "http_requests_total, /walkthrough, 200, POST": 2,
        "http_requests_total, /metrics, 200, GET": 1,
    }
