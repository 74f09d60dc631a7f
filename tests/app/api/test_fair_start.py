"""Requests that come at once begin a few in each round of the event loop, in order."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope, Send

from app.api.route import FairStart


class Rounds:
    """Counts the rounds of the loop, and notes in which one each request began."""

    def __init__(self) -> None:
        self.round = 0
        self.began: list[tuple[int, int]] = []  # (round, request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.append((self.round, scope["number"]))

    def count(self) -> None:
        self.round += 1
        asyncio.get_running_loop().call_soon(self.count)


async def receive() -> Message:
    raise AssertionError("nobody asks")


async def send(message: Message) -> None:
    raise AssertionError("nobody answers")


def come(turns: FairStart, number: int, method: str = "POST") -> asyncio.Task[None]:
    scope = {"type": "http", "method": method, "number": number}
    return asyncio.create_task(turns(scope, receive, send))  # type: ignore[arg-type]


def test_burst_of_requests_starts_a_few_per_iteration() -> None:
    async def run() -> Rounds:
        rounds = Rounds()
        turns = FairStart(rounds, at_once=3)
        asyncio.get_running_loop().call_soon(rounds.count)
        await asyncio.gather(*(come(turns, number) for number in range(10)))
        return rounds

    result = asyncio.run(run())
    assert [number for _, number in result.began] == list(range(10))
    in_one_round = [sum(when == iteration for when, _ in result.began) for iteration in range(result.round + 1)]
    assert max(in_one_round) == 3
    assert sum(count > 0 for count in in_one_round) == 4


def test_single_request_and_health_checks_never_wait() -> None:
    async def run() -> Rounds:
        rounds = Rounds()
        turns = FairStart(rounds, at_once=1)
        posts = [come(turns, number) for number in range(3)]
        look = come(turns, 99, "GET")
        await look
        assert [number for _, number in rounds.began] == [0, 99]
        await asyncio.gather(*posts)
        assert [number for _, number in rounds.began] == [0, 99, 1, 2]
        return rounds

    asyncio.run(run())


def test_cancelled_waiting_request_does_not_delay_others() -> None:
    async def run() -> list[int]:
        rounds = Rounds()
        turns = FairStart(rounds, at_once=1)
        posts = [come(turns, number) for number in range(4)]
        await asyncio.sleep(0)
        posts[1].cancel()
        await asyncio.gather(*posts, return_exceptions=True)
        again = come(turns, 7)
        await asyncio.wait_for(again, 5)
        return [number for _, number in rounds.began]

    assert asyncio.run(run()) == [0, 2, 3, 7]
