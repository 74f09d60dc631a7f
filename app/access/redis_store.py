"""Usage counters in Redis: servers that share one Redis share limits and quotas. Commands that arrive while a round
trip is in flight are pipelined into the next one, over one connection. If Redis is down or slower than `TIMEOUT_S`,
requests are not refused: each server counts for itself and retries Redis every `RETRY_PAUSE_S` with one command."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from importlib.resources import files

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from app.access.rate_limits import Charge, ChargeResult, MemoryStore, Period, Quota, Window, period_label

logger = logging.getLogger(__name__)

TIMEOUT_S = 0.25
RETRY_PAUSE_S = 3.0
_COUNTER_TTL_S: dict[Period, int] = {"day": 2 * 86_400, "month": 62 * 86_400}
# sent with each command, 2 kB: Redis caches the compiled script, and a restarted Redis needs no second round trip
_TAKE = (files("app.access") / "take.lua").read_text(encoding="utf-8")
_GIVE_BACK = (files("app.access") / "give_back.lua").read_text(encoding="utf-8")

Command = tuple[str | int, ...]
Answer = bytes | int | list["Answer"] | None


class RedisUnreachable(Exception):
    """Redis does not answer, or has not answered within the last `RETRY_PAUSE_S`."""


class RedisStore(MemoryStore):
    """Counters in Redis; in memory while it is down. failed: per failed round trip. clock: by default Redis' own."""

    def __init__(
        self, url: str, failed: Callable[[], None] = lambda: None, clock: Callable[[], float] | None = None
    ) -> None:
        super().__init__(clock or time.time, clock or time.monotonic)
        self._redis: Redis = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 1),  # Redis may have closed an idle connection
        )
        self._failed, self._redis_clock = failed, clock is None
        self._waiting: list[tuple[Command, asyncio.Future[Answer]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._retry_at_s = 0.0  # while Redis is down: time of the next attempt; 0: Redis is up

    async def take(self, charge: Charge) -> ChargeResult:
        now = self._clock()
        keys = [f"parlance:{{{charge.caller}}}:per-{rate.unit}" for rate in charge.rates]
        keys += [_quota_key(charge.caller, quota.period, now) for quota in charge.quotas]
        limits = [number for rate in charge.rates for number in (rate.requests, rate.window_s)]
        limits += [number for quota in charge.quotas for number in (quota.characters, _COUNTER_TTL_S[quota.period])]
        cost = ("" if self._redis_clock else repr(now), charge.requests, charge.characters, len(charge.rates))
        try:
            answer = await self._answer("EVAL", _TAKE, len(keys), *keys, *cost, *limits)
        except RedisUnreachable:
            return await super().take(charge)
        assert isinstance(answer, list)
        fits, now_s, *counts = [float(number) for number in answer if isinstance(number, bytes | int)]
        windows = [
            Window(rate, int(counts[2 * n + 1]), int(counts[2 * n]), now_s) for n, rate in enumerate(charge.rates)
        ]
        return ChargeResult(fits == 1, now_s, tuple(windows), tuple(map(int, counts[2 * len(charge.rates) :])))

    async def give_back(self, caller: str, quotas: Sequence[Quota], characters: int) -> None:
        """Refunds characters; while Redis is down, to this server's own counters, which were charged."""
        if not quotas or characters <= 0:
            return
        keys = [_quota_key(caller, quota.period, self._clock()) for quota in quotas]
        try:
            await self._answer("EVAL", _GIVE_BACK, len(keys), *keys, characters)
        except RedisUnreachable:
            await super().give_back(caller, quotas, characters)

    async def characters(self, caller: str, period: Period) -> int:
        try:
            count = await self._answer("GET", _quota_key(caller, period, self._clock()))
        except RedisUnreachable:
            return await super().characters(caller, period)
        return max(0, int(count)) if isinstance(count, bytes | int) else 0

    async def close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sender
        await self._redis.aclose()

    async def _answer(self, *command: str | int) -> Answer:
        """The answer to one command, which is pipelined with all waiting commands."""
        now = time.monotonic()
        if now < self._retry_at_s:
            raise RedisUnreachable
        if self._retry_at_s:
            self._retry_at_s = now + RETRY_PAUSE_S  # only this command probes Redis
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_waiting())
        return await answer

    async def _send_waiting(self) -> None:
        while self._waiting:
            sent, self._waiting = self._waiting, []
            answers: list[Answer] = []
            try:
                async with asyncio.timeout(TIMEOUT_S), self._redis.pipeline(transaction=False) as pipe:
                    for command, _ in sent:
                        pipe.execute_command(*command)
                    answers = await pipe.execute()
            except Exception as error:  # any failure: the waiting requests need an answer
                self._failed()
                if not self._retry_at_s:
                    logger.warning(
                        "Redis does not answer (%s): this server counts for itself until it does", type(error).__name__
                    )
                self._retry_at_s = time.monotonic() + RETRY_PAUSE_S
            else:
                if self._retry_at_s:
                    logger.warning("Redis answers again: limits and quotas are shared as before")
                self._retry_at_s = 0.0
            for place, (_, future) in enumerate(sent):
                if future.done():  # the client has disconnected
                    continue
                if answers:
                    future.set_result(answers[place])
                else:
                    future.set_exception(RedisUnreachable())


def _quota_key(caller: str, period: Period, now_s: float) -> str:
    return f"parlance:{{{caller}}}:characters:{period_label(period, now_s)}"
