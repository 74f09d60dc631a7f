"""Usage of each caller, counted in Redis: servers that share one Redis share limits and quotas.

Requests that come while an answer is on its way go together in the next message: one connection, one round trip each.
A Redis that is down, or slower than `TIMEOUT_S`, refuses no request: each server then counts for itself, and tries
Redis again after `RETRY_PAUSE_S`, with one request's message."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from app.access.memory_store import Charge, ChargeResult, MemoryStore
from app.access.rate_limits import Period, Quota, Window, period_label

logger = logging.getLogger(__name__)

TIMEOUT_S = 0.25
RETRY_PAUSE_S = 3.0
_COUNTER_TTL_S: dict[Period, int] = {"day": 2 * 86_400, "month": 62 * 86_400}


class RedisUnreachable(Exception):
    """Redis does not answer, or has not a moment ago."""


class SharedCounts:
    """failed: called for each message without an answer. clock: only tests have one of their own; Redis' own otherwise,
    so that servers whose clocks differ agree."""

    def __init__(
        self, url: str, failed: Callable[[], None] = lambda: None, clock: Callable[[], float] | None = None
    ) -> None:
        self._redis: Redis = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 1),  # a connection that Redis has closed meanwhile is none that it refuses
        )
        self._scripts: dict[str, str] = {}  # by their SHA-1, as Redis knows them
        self._take, self._give_back = self._known("take.lua"), self._known("give_back.lua")
        self._failed, self._clock = failed, clock
        self._alone = MemoryStore(clock or time.time)
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[Any]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._down, self._again_at_s = False, 0.0

    async def take(self, ask: Charge) -> ChargeResult:
        try:
            answer = await self._asked(*self._command(ask))
        except RedisUnreachable:
            return self._alone.take_now(ask)
        fits, now, *rest = answer
        now_s, count = float(now), 2 * len(ask.rates)
        windows = [Window(rate, int(rest[2 * n + 1]), int(rest[2 * n]), now_s) for n, rate in enumerate(ask.rates)]
        return ChargeResult(fits == 1, now_s, tuple(windows), tuple(int(each) for each in rest[count:]))

    async def give_back(self, caller: str, quotas: Sequence[Quota], characters: int) -> None:
        """Where Redis does not answer, to this server's own count, which is what was taken from since."""
        if not quotas or characters <= 0:
            return
        now = self._now_s()
        keys = [_quota_key(caller, quota.period, now) for quota in quotas]
        try:
            await self._asked("EVALSHA", self._give_back, len(keys), *keys, characters)
        except RedisUnreachable:
            await self._alone.give_back(caller, quotas, characters)

    async def characters(self, caller: str, period: Period) -> int:
        try:
            return max(0, int(await self._asked("GET", _quota_key(caller, period, self._now_s())) or 0))
        except RedisUnreachable:
            return await self._alone.characters(caller, period)

    async def close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sender
        await self._redis.aclose()

    def _known(self, name: str) -> str:
        script = (files("app.access") / name).read_text(encoding="utf-8")
        sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        self._scripts[sha] = script
        return sha

    def _now_s(self) -> float:
        return (self._clock or time.time)()

    def _command(self, ask: Charge) -> tuple[Any, ...]:
        now = self._now_s()
        keys = [f"parlance:{{{ask.caller}}}:per-{rate.unit}" for rate in ask.rates]
        keys += [_quota_key(ask.caller, quota.period, now) for quota in ask.quotas]
        numbers = [each for rate in ask.rates for each in (rate.requests, rate.window_s)]
        numbers += [each for quota in ask.quotas for each in (quota.characters, _COUNTER_TTL_S[quota.period])]
        given = "" if self._clock is None else repr(now)
        return "EVALSHA", self._take, len(keys), *keys, given, ask.requests, ask.characters, len(ask.rates), *numbers

    async def _asked(self, *command: Any) -> Any:
        """The answer to one command, which goes with all others that wait."""
        now = time.monotonic()
        if now < self._again_at_s:
            raise RedisUnreachable
        if self._down:
            self._again_at_s = now + RETRY_PAUSE_S  # this one looks whether it is back; the others go on alone
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())
        return await answer

    async def _send(self) -> None:
        while self._waiting:
            sent, self._waiting = self._waiting, []
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    answers = await self._answers([command for command, _ in sent])
            except Exception as error:  # whatever it is, those who wait must hear of it
                self._lost(error)
                answers = [RedisUnreachable()] * len(sent)
            else:
                self._back()
            for (_, answer), found in zip(sent, answers, strict=True):
                if answer.done():  # its client has left
                    continue
                if isinstance(found, Exception):
                    answer.set_exception(found if isinstance(found, RedisUnreachable) else RedisUnreachable())
                else:
                    answer.set_result(found)

    async def _answers(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        answers = await self._piped(commands)
        missing = [n for n, each in enumerate(answers) if isinstance(each, NoScriptError)]
        if missing:  # a Redis that has just started: none of it ran
            for sha in {commands[n][1] for n in missing}:
                await self._redis.script_load(self._scripts[sha])
            for n, answer in zip(missing, await self._piped([commands[n] for n in missing]), strict=True):
                answers[n] = answer
        for each in answers:
            if isinstance(each, Exception):
                raise each
        return answers

    async def _piped(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return list(await pipe.execute(raise_on_error=False))

    def _lost(self, error: Exception) -> None:
        self._failed()
        if not self._down:
            logger.warning(
                "Redis does not answer (%s): this server counts for itself until it does", type(error).__name__
            )
        self._down, self._again_at_s = True, time.monotonic() + RETRY_PAUSE_S

    def _back(self) -> None:
        if self._down:
            logger.warning("Redis answers again: limits and quotas are shared as before")
        self._down, self._again_at_s = False, 0.0


def _quota_key(caller: str, period: Period, now_s: float) -> str:
    return f"parlance:{{{caller}}}:characters:{period_label(period, now_s)}"
