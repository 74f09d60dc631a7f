"""Inspections take turns: all device processes of a machine share its cores, so that on CPUs only one inspection is
computed at a time; on GPUs, as many as there are GPUs. A turn ends when the device answers or its process dies, not
when the client leaves: a cancelled inspection still computes for a moment."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque

from app.errors import EngineUnavailable, Overloaded

MAX_WAITING = 64
MAX_RETRY_AFTER_S = 60


class InspectionTurns:
    """at_once: the number of turns. max_wait_s: an inspection that would probably wait longer is refused."""

    def __init__(self, at_once: int = 1, max_wait_s: float = math.inf) -> None:
        self.at_once, self.max_wait_s = at_once, max_wait_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._held: dict[int, tuple[str, float]] = {}  # message id -> device and beginning of each turn
        self._granted = 0  # turns that are given and not yet in `_held`
        self._recent_s: deque[float] = deque(maxlen=16)  # how long the last turns took

    @property
    def running(self) -> int:
        return len(self._held) + self._granted

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def check_room(self) -> None:
        """Raises Overloaded if another inspection would be refused."""
        wait_s = self.wait_s()
        if len(self._waiting) >= MAX_WAITING or wait_s > self.max_wait_s:
            retry_s = max(1, min(MAX_RETRY_AFTER_S, math.ceil(wait_s)))
            message = f"Too many inspections are waiting; try again in {retry_s} second{'s' * (retry_s != 1)}."
            raise Overloaded(message, retry_after_s=retry_s, reason="overloaded_inspections")

    def wait_s(self) -> float:
        """The expected wait of another inspection, from the mean of the last turns; 0 without any."""
        if self.running < self.at_once or not self._recent_s:
            return 0.0
        return (len(self._waiting) + 1) * sum(self._recent_s) / len(self._recent_s) / self.at_once

    async def take(self, *, soon: bool = False) -> None:
        """Waits for a turn, which `begin` then assigns to a message, or `give_up` ends. soon: after the first one that
        waits, and never refused: translations in progress need it, and their number is bounded."""
        if not soon:
            self.check_room()
        if self.running < self.at_once:
            self._granted += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.insert(1 if soon else len(self._waiting), turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give_up()  # cancelled in the moment in which its turn came
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def give_up(self) -> None:
        """Ends a turn for which nothing was sent."""
        self._granted -= 1
        self._next()

    def begin(self, message: int, device: str) -> None:
        """The turn is the message's, which is being sent to the device."""
        self._granted -= 1
        self._held[message] = device, time.monotonic()

    def end(self, message: int) -> None:
        """The device has answered the message; other messages than inspections are ignored."""
        if (turn := self._held.pop(message, None)) is not None:
            self._recent_s.append(time.monotonic() - turn[1])
            self._next()

    def device_died(self, device: str) -> None:
        for message in [message for message, (holder, _) in self._held.items() if holder == device]:
            del self._held[message]
            self._next()

    def refuse_waiting(self, error: EngineUnavailable) -> None:
        """Fails all that wait."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(error)

    def _next(self) -> None:
        while self._waiting and self.running < self.at_once:
            turn = self._waiting.popleft()
            if not turn.done():  # its task may be cancelled already
                self._granted += 1
                turn.set_result(None)
