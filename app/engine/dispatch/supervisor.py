"""Spawns and watches device processes, and respawns dead ones with exponential backoff. A process is killed when it is
silent for `hang_timeout_s`, or needs more than `start_timeout_s` to load a model; the next process gets twice the time
for that model, and a model that is only slow is never left out. A model is left out, so that the others are served, if
process after process crashes while it loads. Time in which this process itself did not run (a suspended laptop, a
blocked event loop) does not count."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from operator import attrgetter
from typing import Any

import msgspec

from app.engine.dispatch.placement import device_environment, torch_device
from app.engine.protocol import messages as m
from app.errors import CheckpointRefused, EngineError, EngineUnavailable
from models.child_process import ChildProcess

log = logging.getLogger(__name__)

FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 30.0
HEALTHY_S = 30.0  # ready for so long: the backoff starts over
MOST_LOADING_DEATHS = 3  # of processes that could load another model
MOST_DOUBLINGS = 5  # of the start timeout, for a model that was too slow: a slow machine gets there, a hang ends rarely


class WorkerProcess(ChildProcess[m.FromDevice]):
    """The process of one device. on_message, on_death: as of `ChildProcess`, with the device's name."""

    def __init__(
        self, device: str, *, on_message: Callable[[str, m.FromDevice], None], on_death: Callable[[str], None]
    ) -> None:
        program = ["-m", "app.engine.worker.worker_main"]
        super().__init__(device, program, m.from_device, on_message=on_message, on_death=on_death)


@dataclass(slots=True)
class Device:
    """One device and its current process. Times are CLOCK_MONOTONIC seconds. loading: unanswered loads, each with the
    future that awaits it, if any; failed: model -> reason; loads: the last answers of all models loaded here and not
    unloaded since; pause_s: before the next respawn; deaths: in a row, without HEALTHY_S of readiness in between;
    reason: a clause of the last process that said why it ended; overdue: the clause of a process that is being killed
    for its start timeout; timed_out: that clause of the last process, None if it ended in another way; loading_deaths:
    in a row, by the model that was being loaded, and slow_loads those of the start timeout, which are not among them;
    left_out: model -> reason, for models that end every process."""

    name: str
    process: WorkerProcess | None = None
    state: str = "starting"  # "starting" | "ready" | "restarting" | "stopped"
    loaded: set[str] = field(default_factory=set)
    loads: dict[str, m.Loaded] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    loading: dict[str, asyncio.Future[EngineError | None] | None] = field(default_factory=dict)
    outstanding_tokens: int = 0
    pause_s: float = FIRST_PAUSE_S
    deaths: int = 0
    died_loading: str | None = None
    loading_deaths: Counter[str] = field(default_factory=Counter)
    slow_loads: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    reason: str | None = None
    overdue: str | None = None
    timed_out: str | None = None
    heard_at: float = 0.0
    load_began: float = 0.0
    ready_at: float | None = None

    def load_ended(self, model: str, problem: EngineError | None) -> None:
        waiter = self.loading.pop(model, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(problem)
        self.load_began = time.monotonic()  # the next load in its queue begins

    @property
    def patience(self) -> int:
        """Start timeouts for the load that runs: twice as many after each in which it was too slow."""
        return 2 ** min(MOST_DOUBLINGS, self.slow_loads[next(iter(self.loading))]) if self.loading else 1

    def lateness(self, limit_s: float) -> str:
        """A clause: what is not ready after the start timeout, and the setting that allows more time."""
        model = next(iter(self.loading), None)
        late = f"it had not loaded {m.plain_name(model)}" if model else "it had not started"
        return f"{late} within {limit_s:g} s (on a slow or busy machine, raise PARLANCE_WORKER_START_TIMEOUT_S)"

    @property
    def healthy(self) -> bool:
        return self.ready_at is not None and time.monotonic() - self.ready_at >= HEALTHY_S

    @property
    def problem(self) -> str | None:
        """One sentence while the device is down, and after repeated deaths until it has stayed ready for HEALTHY_S."""
        if self.state not in ("restarting", "stopped") and (self.deaths < 2 or self.healthy):
            return None
        if self.timed_out:
            times = f" {self.deaths} times in a row, last" if self.deaths > 1 else ""
            return f"{self.name} is {self.state}; its process was ended{times} because {self.timed_out}."
        more = f"; its process has ended {self.deaths} times in a row" if self.deaths > 1 else ""
        model = f", last while it loaded {m.plain_name(self.died_loading)}" if more and self.died_loading else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.name} is {self.state}{more}{model}{reason}."


@dataclass(eq=False)
class Supervisor:
    """Keeps one process per device running. configure: the first message to every process, without its device.
    to_load: called at every start; name -> load message. on_reply: set by the dispatcher, receives messages about
    requests; on_heartbeat: receives a device's statistics; on_failure: receives a model that no device could load;
    on_death: receives a device after its process died with all its requests in flight."""

    names: InitVar[Sequence[str]]
    _: KW_ONLY
    configure: m.Configure
    start_timeout_s: float
    hang_timeout_s: float
    to_load: Callable[[], Mapping[str, m.Load]]
    on_failure: Callable[[str, str], None]
    on_death: Callable[[str], None]
    on_heartbeat: Callable[[str, m.Heartbeat], None]
    on_reply: Callable[[m.FromDevice], None] = lambda message: None

    def __post_init__(self, names: Sequence[str]) -> None:
        self.devices = {name: Device(name) for name in names}
        self._tasks: set[asyncio.Task[None]] = set()
        self._coming: dict[str, m.Load] = {}  # being loaded at run time, and not in `to_load` yet
        self._stopping = self._spawned = False

    def spawn_all(self) -> None:
        self._spawned = True
        for device in self.devices.values():
            device.state = "starting"
            self._in_background(self._spawn(device))
        self._in_background(self._watch())

    def leave_idle(self) -> None:
        """Starts no process while no model is offered; the first load starts them."""
        for device in self.devices.values():
            device.state = "stopped"

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _spawn(self, device: Device, *, again: bool = False) -> None:
        if again:
            await asyncio.sleep(device.pause_s)
            device.pause_s = min(MAX_PAUSE_S, device.pause_s * 2)
        device.loaded.clear()
        device.failed = dict(device.left_out)
        device.state = "starting"
        device.heard_at = device.load_began = time.monotonic()
        process = WorkerProcess(device.name, on_message=self._on_message, on_death=self._died)
        device.process = process
        try:
            names = {"device": torch_device(device.name), "name": device.name}
            await process.start(device_environment(device.name), [msgspec.structs.replace(self.configure, **names)])
        except Exception:
            log.exception("the process of %s could not be started", device.name)
            self._died(device.name)
            return
        loads = {**self.to_load(), **self._coming}  # read after the start, during which they may change
        # a model that has ended two processes comes last: the others show whether it or the device is at fault
        ended = device.loading_deaths + device.slow_loads
        order = sorted(loads, key=lambda name: ended[name] >= MOST_LOADING_DEATHS - 1)
        messages = [loads[name] for name in order if name not in device.left_out]
        for message in messages:
            device.loading.setdefault(message.name, None)
        process.send(messages)

    async def _watch(self) -> None:
        """Kills processes that hang."""
        interval = min(1.0, self.hang_timeout_s / 4, self.start_timeout_s / 4)
        while True:
            expected = time.monotonic() + interval
            await asyncio.sleep(interval)
            now = time.monotonic()
            asleep = max(0.0, now - expected)
            for device in list(self.devices.values()):
                device.heard_at += asleep  # messages that arrived meanwhile are not read yet
                device.load_began += asleep
                since, limit_s = device.heard_at, self.hang_timeout_s
                starts = device.state == "starting" or bool(device.loading)
                if starts:
                    since, limit_s = device.load_began, self.start_timeout_s * device.patience
                if device.process is not None and now - since > limit_s:
                    if starts:
                        device.overdue = device.lateness(limit_s)
                        log.error("the process of %s is ended because %s", device.name, device.overdue)
                    else:
                        log.error("the process of %s has said nothing for %g s; it is ended", device.name, limit_s)
                    device.heard_at = device.load_began = now  # do not kill it again
                    self._in_background(device.process.kill())

    def _on_message(self, name: str, message: m.FromDevice) -> None:
        device = self.devices[name]
        device.heard_at = time.monotonic()
        match message:
            case m.Heartbeat():
                self.on_heartbeat(name, message)
                return
            case m.Started():
                device.reason = None
                if device.process is not None:
                    log.info("%s runs in process %s", name, device.process.pid)
            case m.Ended():
                device.reason = message.reason
            case m.Loaded():
                log.info("%s loaded %s in %.2f s", name, message.name, message.seconds)
                if message.name in self._coming or message.name in self.to_load():  # not unloaded meanwhile
                    device.loaded.add(message.name)
                    device.loads[message.name] = message
                device.loading_deaths.pop(message.name, None)
                device.slow_loads.pop(message.name, None)
                device.load_ended(message.name, None)
            case m.LoadFailed():
                log.error("%s did not load %s: %s", name, message.name, message.reason)
                device.failed[message.name] = message.reason
                device.load_ended(message.name, CheckpointRefused(message.reason))
                self._withdraw_if_nowhere(message.name, message.reason)
            case _:
                self.on_reply(message)
                return
        if device.state == "starting" and self.to_load().keys() <= device.loaded | device.failed.keys():
            device.state, device.ready_at = "ready", time.monotonic()

    def _died(self, name: str) -> None:
        device = self.devices[name]
        device.process, device.outstanding_tokens = None, 0
        if device.healthy:
            device.deaths, device.pause_s = 0, FIRST_PAUSE_S
        device.timed_out, device.overdue = device.overdue, None
        device.died_loading = next(iter(device.loading), None)
        if device.died_loading is not None:
            self._count_loading_death(device, device.died_loading)
        device.loaded.clear()
        device.ready_at = None
        for model in list(device.loading):
            reason = f"The process of {name} ended while it loaded {m.plain_name(model)}; try again in a moment."
            if device.timed_out:
                reason = f"The process of {name} was ended because {device.timed_out}; try again in a moment."
            device.load_ended(model, EngineUnavailable(reason))
        self.on_death(name)
        if self._stopping:
            return
        device.state, device.deaths = "restarting", device.deaths + 1
        reason = f": {device.reason}" if device.reason else ""
        log.error("the process of %s ended%s; the next starts in %g s", name, reason, device.pause_s)
        self._in_background(self._spawn(device, again=True))

    def _count_loading_death(self, device: Device, model: str) -> None:
        """Leaves the model out after `MOST_LOADING_DEATHS`, if the last process could load another one. Slow loads do
        not count: on a busy machine they say nothing about the checkpoint."""
        if device.timed_out:
            device.slow_loads[model] += 1
            return
        device.loading_deaths[model] += 1
        if device.loading_deaths[model] >= MOST_LOADING_DEATHS and device.loaded:
            times = f"{device.loading_deaths[model]} times in a row"
            reason = (
                f"The process of {device.name} ended {times} while it loaded {m.plain_name(model)}; it is left out."
            )
            log.error("%s", reason)
            device.left_out[model] = device.failed[model] = reason
            self._withdraw_if_nowhere(model, reason)

    def _withdraw_if_nowhere(self, model: str, reason: str) -> None:
        if model not in self._coming and all(model in device.failed for device in self.devices.values()):
            self.on_failure(model, reason)

    def least_busy(self, model: str) -> Device | None:
        """The device with the model and the least outstanding tokens; None if no device has it."""
        holders = (device for device in self.devices.values() if model in device.loaded)
        return min(holders, key=attrgetter("outstanding_tokens"), default=None)

    def is_loading(self, model: str) -> bool:
        """Whether a device loads the model, or has just started and will."""
        return any(device.state == "starting" or model in device.loading for device in self.devices.values())

    def problems(self) -> list[str]:
        """One sentence per device that is down, and per model that some device failed to load."""
        down = [problem for device in self.devices.values() if (problem := device.problem)]
        return down + [
            f"{device.name} does not have {m.plain_name(model)}: {reason}"
            for device in self.devices.values()
            for model, reason in device.failed.items()
            if model in self.to_load()
        ]

    async def load(self, message: m.Load) -> None:
        """Loads a version on all ready and starting devices; raises the first problem. Ends by the start timeout, since
        slower processes are killed. The caller must call `settle` or `unload` afterwards, whatever the outcome."""
        awaited = [device for device in self.devices.values() if device.state == "ready" or not self._spawned]
        if not awaited or self._stopping:
            raise EngineUnavailable("No device is ready to load a model; try again in a few seconds.")
        self._coming[message.name] = message
        if not self._spawned:
            self.spawn_all()
        loop, waiters = asyncio.get_running_loop(), list[asyncio.Future[EngineError | None]]()
        for device in awaited:
            if not device.loading:
                device.load_began = time.monotonic()
            waiters.append(loop.create_future())
            device.loading[message.name] = waiters[-1]
        for device in self.devices.values():
            if device.process is not None and device.state in ("ready", "starting"):
                device.loading.setdefault(message.name, None)
                device.process.send([message])
        for problem in await asyncio.gather(*waiters):
            if problem is not None:
                raise problem

    def settle(self, model: str) -> None:
        """Marks a version as part of `to_load` from now on."""
        self._coming.pop(model, None)

    def unload(self, model: str) -> None:
        self._coming.pop(model, None)
        for device in self.devices.values():
            device.loaded.discard(model)
            device.loads.pop(model, None)
            device.failed.pop(model, None)
            device.left_out.pop(model, None)
            device.loading_deaths.pop(model, None)
            device.slow_loads.pop(model, None)
            if device.process is not None:
                device.process.send([m.Unload(model)])

    async def stop(self) -> None:
        self._stopping = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(d.process.stop(5.0, [m.Stop()]) for d in self.devices.values() if d.process))
        for device in self.devices.values():
            device.state = "stopped"
