"""Who waits for what: numbered messages to the devices, and their answers back to those who wait."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.engine import errors
from app.engine import messages as m
from app.engine.devices import Devices
from app.engine.meter import RequestMeter
from app.engine.metrics import Metrics
from app.engine.stopping import StopWatch

log = logging.getLogger(__name__)

ERRORS: dict[str, Callable[..., errors.EngineError]] = {
    cls.code: cls
    for cls in (errors.InvalidRequest, errors.UnknownModel, errors.DeadlineExceeded, errors.EngineUnavailable)
}


@dataclass(slots=True, eq=False)
class Waiter:
    """One message to a device whose answer is awaited; `on_token` hears each token as it comes."""

    device: str
    tokens: int
    future: asyncio.Future[Any]
    meter: RequestMeter
    on_token: Callable[[int], None] | None = None


class Switchboard:
    def __init__(self, devices: Devices, timeout_s: float, metrics: Metrics) -> None:
        self.devices, self.timeout_s, self.metrics = devices, timeout_s, metrics
        self._waiters: dict[int, Waiter] = {}
        self._ids = itertools.count(1)

    async def ask(
        self,
        model: str,
        tokens: int,
        message: Callable[[int, float], Any],
        watch: StopWatch | None = None,
    ) -> Any:
        """Send to the least busy device and wait; whoever stops waiting frees the slots."""
        with self.metrics.request(model, tokens) as meter:
            return await self._ask(model, tokens, message, watch, meter)

    async def _ask(
        self,
        model: str,
        tokens: int,
        message: Callable[[int, float], Any],
        watch: StopWatch | None,
        meter: RequestMeter,
    ) -> Any:
        device = self.devices.least_busy(model)
        if device is None or device.process is None:
            name = m.plain_name(model)
            raise errors.EngineUnavailable(f"No device has {name} ready right now; try again in a few seconds.")
        request, timeout = next(self._ids), self.timeout_s
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiter = Waiter(device.name, tokens, future, meter)
        if watch is not None:
            waiter.on_token = lambda token: resolve(future, watch.feed(token))
        self._waiters[request] = waiter
        device.outstanding_tokens += tokens
        answered = False
        try:
            async with asyncio.timeout(timeout):  # begins before the deadline is told, so that it ends before it
                meter.sent(device.name)
                device.process.send([message(request, time.monotonic() + timeout)])
                result = await future
                answered = not isinstance(result, str)
                meter.answered(result)
                return result
        except TimeoutError:
            raise errors.DeadlineExceeded(
                f"The answer did not come within {timeout:g} seconds; send a shorter text or try again later."
            ) from None
        finally:
            del self._waiters[request]
            device.outstanding_tokens = max(0, device.outstanding_tokens - tokens)
            if not answered and device.process is not None:
                device.process.send([m.Cancel(request)])

    def reply(self, message: m.FromDevice) -> None:
        match message:
            case m.Tokens():
                for request, token in message.tokens:
                    waiter = self._waiters.get(request)
                    if waiter is not None and waiter.on_token is not None:
                        waiter.meter.token()
                        self._hear(waiter, waiter.on_token, token)
            case m.Failed():
                error = ERRORS.get(message.code, errors.EngineFailed)(message.reason, field=message.field)
                if message.id in self._waiters:
                    self._fail(self._waiters[message.id], error)
            case m.Finished() | m.Attention():
                if message.id in self._waiters:
                    resolve(self._waiters[message.id].future, message)

    def _hear(self, waiter: Waiter, on_token: Callable[[int], None], token: int) -> None:
        """What one listener cannot take fails its own request, not the reading of all answers."""
        try:
            on_token(token)
        except Exception as error:
            log.exception("token %d could not be taken", token)
            self._fail(waiter, errors.EngineFailed(f"Token {token} could not be taken: {error}."))

    def _fail(self, waiter: Waiter, error: errors.EngineError) -> None:
        if not waiter.future.done():
            waiter.future.set_exception(error)

    def device_died(self, device: str) -> None:
        """Everything in flight there ends at once with an error that says to try again."""
        for waiter in list(self._waiters.values()):
            if waiter.device == device:
                died = errors.EngineUnavailable("The device process ended; please try again.", reason="device_died")
                self._fail(waiter, died)

    async def drain(self, timeout_s: float) -> None:
        """Wait for what is in flight, but not for ever: the rest is told to try again."""
        end = time.monotonic() + timeout_s
        while self._waiters and (left := end - time.monotonic()) > 0:  # one answer may need another question
            await asyncio.wait([waiter.future for waiter in self._waiters.values()], timeout=left)
        for waiter in list(self._waiters.values()):
            over = errors.EngineUnavailable("The service is shutting down; try again in a moment.", reason="draining")
            self._fail(waiter, over)


def resolve(future: asyncio.Future[Any], value: Any) -> None:
    if value is not None and not future.done():
        future.set_result(value)
