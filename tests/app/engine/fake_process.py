"""Device processes that are not real."""

from __future__ import annotations

from typing import Any

from app.engine.dispatch.supervisor import Supervisor
from app.engine.protocol import messages as m


class FakeProcess:
    """Ends when the test says so."""

    started: list[FakeProcess]
    fails: Exception | None

    def __init__(self, device: str, *, on_message: Any, on_death: Any) -> None:
        self.device, self.on_message, self.on_death, self.killed = device, on_message, on_death, 0
        self.pid, self.cores = 1, None
        self.sent: list[Any] = []

    async def start(self, environment: Any, first: list[Any], cores: Any = None) -> None:
        self.cores = cores
        self.started.append(self)
        if self.fails is not None:
            raise self.fails

    def send(self, messages: list[Any]) -> None:
        self.sent += messages

    def says(self, *messages: Any) -> None:
        for message in messages:
            self.on_message(self.device, message)

    async def kill(self) -> None:
        self.killed += 1
        self.on_death(self.device)

    async def stop(self, timeout_s: float, last: Any) -> None:
        self.on_death(self.device)


def a_supervisor(deaths: list[str], names: tuple[str, ...] = ("cpu",), **change: Any) -> Supervisor:
    options: dict[str, Any] = {
        "configure": m.Configure("", 1, 1),
        "start_timeout_s": 60.0,
        "hang_timeout_s": 60.0,
        "to_load": lambda: {"a": m.Load("a", "/a")},
        "on_reply": lambda message: None,
        "on_failure": lambda name, problem: None,
        "on_death": deaths.append,
        "on_heartbeat": lambda name, beat: None,
    }
    return Supervisor(list(names), **{**options, **change})
