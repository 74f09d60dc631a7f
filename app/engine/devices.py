"""All device processes: spawned, watched, and spawned again with growing pauses when they die."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.engine import messages as m
from app.engine.device import DeviceProcess

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0


@dataclass(slots=True)
class Device:
    """One device and the process that serves it now. pause_s: how long to wait before the next start."""

    name: str
    process: DeviceProcess | None = None
    state: str = "starting"  # "starting" | "ready" | "restarting" | "stopped"
    loaded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    outstanding_tokens: int = 0
    pause_s: float = FIRST_PAUSE_S


class Devices:
    """`to_load` is asked at every start: name -> what a process must load.

    on_reply gets messages about requests; on_failure a model that a device could not load; on_death a device
    whose process has just ended with whatever was in flight on it; on_beat a device and its statistics.
    """

    def __init__(
        self,
        names: list[str],
        *,
        threads: int,
        slots: int,
        start_timeout_s: float,
        to_load: Callable[[], Mapping[str, m.Load]],
        on_reply: Callable[[m.FromDevice], None],
        on_failure: Callable[[str, str], None],
        on_death: Callable[[str], None],
        on_beat: Callable[[str, m.Beat], None],
    ) -> None:
        self.all = {name: Device(name) for name in names}
        self._threads, self._slots, self._start_timeout_s = threads, slots, start_timeout_s
        self._to_load, self._on_reply = to_load, on_reply
        self._on_failure, self._on_death_of, self._on_beat = on_failure, on_death, on_beat
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def spawn_all(self) -> None:
        for device in self.all.values():
            self._in_background(self._spawn(device))

    def leave_idle(self) -> None:
        """There is nothing to load, so no process is started."""
        for device in self.all.values():
            device.state = "stopped"

    def _in_background(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _spawn(self, device: Device) -> None:
        device.loaded.clear()
        device.failed.clear()
        process = DeviceProcess(device.name, on_message=self._heard, on_death=self._died)
        device.process = process
        try:
            await process.start([m.Configure(device.name, self._threads, self._slots), *self._to_load().values()])
        except Exception:
            log.exception("the process of %s could not be started", device.name)
            self._died(device.name)
            return
        await asyncio.sleep(self._start_timeout_s)
        if device.process is process and device.state != "ready" and not self._stopping:
            log.error("the process of %s was not ready after %g s; it is ended", device.name, self._start_timeout_s)
            await process.kill()

    def _heard(self, name: str, message: m.FromDevice) -> None:
        device = self.all[name]
        match message:
            case m.Started():
                log.info("%s runs in process %s", name, device.process.pid if device.process else "?")
            case m.Loaded():
                log.info("%s loaded %s in %.2f s", name, message.name, message.seconds)
                device.loaded.add(message.name)
            case m.LoadFailed():
                log.error("%s did not load %s: %s", name, message.name, message.reason)
                device.failed.add(message.name)
                self._on_failure(message.name, message.reason)
            case m.Beat():
                self._on_beat(name, message)
                return
            case _:
                self._on_reply(message)
                return
        if self._to_load().keys() <= device.loaded | device.failed:
            device.state, device.pause_s = "ready", FIRST_PAUSE_S

    def _died(self, name: str) -> None:
        device = self.all[name]
        device.process, device.outstanding_tokens = None, 0
        device.loaded.clear()
        self._on_death_of(name)
        if self._stopping:
            return
        device.state = "restarting"
        log.error("the process of %s ended; the next starts in %g s", name, device.pause_s)
        self._in_background(self._respawn(device))

    async def _respawn(self, device: Device) -> None:
        await asyncio.sleep(device.pause_s)
        device.pause_s = min(LONGEST_PAUSE_S, device.pause_s * 2)
        await self._spawn(device)

    def least_busy(self, model: str) -> Device | None:
        """The device with that model and the least outstanding tokens; None if none can take work now."""
        able = [d for d in self.all.values() if model in d.loaded]
        return min(able, key=lambda d: d.outstanding_tokens) if able else None

    async def stop(self) -> None:
        self._stopping = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(d.process.stop(5.0) for d in self.all.values() if d.process))
        for device in self.all.values():
            device.state = "stopped"


def device_names(setting: str) -> list[str]:
    """ "auto": every CUDA device, or else the CPU. The front end must not load torch to find out, so it asks
    the driver's own list of devices."""
    if setting != "auto":
        return list(dict.fromkeys(name.strip() for name in setting.split(",") if name.strip()))
    return [f"cuda:{i}" for i in range(cuda_device_count())] or ["cpu"]


def cuda_device_count() -> int:
    """How many NVIDIA devices a process would see: CUDA_VISIBLE_DEVICES if it is set, else the device files."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        names = [path.name for path in Path("/dev").iterdir()]
    except OSError:
        names = []
    present = sum(1 for name in names if name.startswith("nvidia") and name[6:].isdigit())
    if visible is None:
        return present
    return min(present, len([part for part in visible.split(",") if part.strip() not in ("", "-1")]))
