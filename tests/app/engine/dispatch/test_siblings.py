"""Sequences that are sent together share one turn in the device's queue."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from app.engine.dispatch.dispatcher import Dispatcher, gather
from app.engine.dispatch.supervisor import Supervisor
from app.engine.metrics import Metrics
from app.engine.protocol import messages as m
from tests.request_builders import decode_message


def test_sequences_of_one_request_share_a_number_and_no_two_requests_do() -> None:
    sent: list[m.Decode] = []
    device = SimpleNamespace(name="cpu", outstanding_tokens=0, process=SimpleNamespace(send=sent.extend))
    devices = SimpleNamespace(least_busy=lambda model: device)

    async def scene() -> None:
        dispatcher = Dispatcher(cast(Supervisor, devices), 5.0, Metrics())

        def ask() -> Any:
            return dispatcher.ask(decode_message(0, "a@1", [5], [2], 0.0, 4), 1)

        async def page(size: int) -> None:
            await gather(ask() for _ in range(size))

        tasks = [asyncio.create_task(work) for work in (page(3), page(2), ask())]
        while len(sent) < 6:
            await asyncio.sleep(0)
        for message in sent:
            dispatcher.reply(m.Finished(message.id, []))
        await asyncio.gather(*tasks)

    asyncio.run(scene())
    numbers = [message.siblings for message in sorted(sent, key=lambda each: each.id)]
    assert len(numbers) == 6
    assert sorted(numbers.count(number) for number in set(numbers)) == [1, 2, 3]
    assert [number for number in numbers if numbers.count(number) == 1] == [0]
