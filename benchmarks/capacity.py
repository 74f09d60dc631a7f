"""How many requests a machine answers, from measured service times: a queueing simulation, held to two measured points.

    python -m benchmarks.capacity [--checkpoints FOLDER] [--json]

Closed loops of 8 and 64 clients against a real server give the processor time of a request in the front end, of a
request and of a decoding step in a device process, and of the client beside them. The simulation plays requests
through these processes on as many cores as spinning programs got beside the run, and predicts the closed loops of 16
and 32 clients, which are measured too and were no input. Then it says what cores would answer a million requests a day,
where the front end saturates, and what machines of 1 to 64 cores would answer with as many front ends as pay."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import occupancy, report
from benchmarks.load import closed_loop
from benchmarks.servers import Server, ours
from benchmarks.sweep import translation
from benchmarks.wire import Client

INPUTS, VALIDATED = (8, 64), (16, 32)  # with fewer clients than 8, device processes poll for the next request
DAY_S = 86_400.0
PEAK = 3.0  # busiest hour of a day over its mean hour
UTILISATION = 0.7  # of the capacity, that queues stay short
MODEL = "demo-de-en"
TEXTS = (
    "guten morgen",
    "ich möchte ein bier",
    "wo ist der bahnhof?",
    "wie viel kostet das zimmer?",
    "ich komme aus wien",
)


@dataclass(frozen=True, slots=True)
class Costs:
    """Processor seconds. front_end_s, client_s: of a request. step_s: of a decoding step, whatever its rows;
    request_s: of a request in a device process beside its steps, its prefill and its share of each row included.
    tokens: decoding steps of a request, the mean. cores: what all processes together can get. front_ends: processes;
    engine_s: of a request in the engine process that several of them share, 0 where there is one."""

    front_end_s: float
    client_s: float
    step_s: float
    request_s: float
    tokens: float
    cores: float
    devices: int
    front_ends: int = 1
    engine_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Loop:
    """A measured closed loop. Seconds of the processor are those of all its requests together."""

    clients: int
    requests: int
    wall_s: float
    front_end_s: float
    device_s: float
    client_s: float
    steps: float
    rows: float
    engine_s: float = 0.0

    @property
    def rate(self) -> float:
        return self.requests / self.wall_s


async def measure(server: Server, clients: int, seconds: float) -> Loop:
    """The closed loop of `clients` for about `seconds`, its first tenth of them as a warm-up."""
    client = Client(server.port)
    kinds = processes(server)
    requests = [translation(TEXTS[i % len(TEXTS)]) for i in range(4 * clients)]
    await closed_loop(client, requests, clients)  # connections, and what a first request makes
    _, warm_s = await closed_loop(client, requests, clients)
    count = max(2 * clients, int(len(requests) * seconds / warm_s))
    requests = [translation(TEXTS[i % len(TEXTS)]) for i in range(count)]
    await asyncio.sleep(1.2)  # the devices' last report, once a second
    before, used = occupancy.of(server, MODEL), time.process_time()
    cpu = {kind: server.cpu_s(pids) for kind, pids in kinds.items()}
    outcomes, wall_s = await closed_loop(client, requests, clients)
    cpu = {kind: server.cpu_s(pids) - cpu[kind] for kind, pids in kinds.items()}
    used = time.process_time() - used
    client.close()
    await asyncio.sleep(1.2)
    after = occupancy.of(server, MODEL)
    assert before is not None and after is not None
    assert all(outcome.succeeded for outcome in outcomes)

    def grown(name: str) -> float:
        return after[f"parlance:{name}"] - before[f"parlance:{name}"]

    steps, rows = grown("step_duration_seconds_count"), grown("step_rows_total")
    return Loop(clients, count, wall_s, cpu["front_ends"], cpu["devices"], used, steps, rows, cpu["engine"])


def processes(server: Server) -> dict[str, list[int]]:
    """Process ids by kind. One front end is the engine process too, and counts as a front end."""
    kinds: dict[str, list[int]] = {"front_ends": [], "engine": [], "devices": []}
    for pid in server.pids()[1:]:
        is_device = b"worker_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        kinds["devices" if is_device else "front_ends"].append(pid)
    kinds["engine" if kinds["front_ends"] else "front_ends"].append(server.process.pid)
    return kinds


def fit(few: Loop, many: Loop, devices: int, cores: float) -> Costs:
    """Two unknowns of a device process, from two loops: its seconds are steps × step_s + requests × request_s."""
    determinant = few.steps * many.requests - many.steps * few.requests
    step_s = (few.device_s * many.requests - many.device_s * few.requests) / determinant
    # noise can make one of the two negative: all of the larger loop's time is then the other's
    step_s = min(max(step_s, 0.0), many.device_s / many.steps)
    request_s = (many.device_s - step_s * many.steps) / many.requests
    return Costs(
        front_end_s=many.front_end_s / many.requests,
        client_s=many.client_s / many.requests,
        step_s=step_s,
        request_s=request_s,
        tokens=many.rows / many.requests,
        cores=cores,
        devices=devices,
        engine_s=many.engine_s / many.requests,
    )


@dataclass(slots=True)
class Process:
    """One process of the simulation: it works on `now` until `left_s` of the processor are done."""

    now: Any = None
    left_s: float = 0.0
    queue: deque[Any] = field(default_factory=deque)
    rows: dict[int, int] = field(default_factory=dict)  # of a device: request -> steps that are left


class Simulation:
    """A closed loop or a Poisson process of requests through clients, front ends, the engine process of several front
    ends, and devices, which share `cores`: with more processes at work than cores, each proceeds at its share. Clients
    have as many processes as there are front ends."""

    def __init__(self, costs: Costs, seed: int = 0, slots: int = 64) -> None:
        self._costs, self._slots = costs, slots
        self._random = random.Random(seed)
        self._clients = [Process() for _ in range(costs.front_ends)]
        self._fronts, self._engine = [Process() for _ in range(costs.front_ends)], Process()
        self._devices = [Process() for _ in range(costs.devices)]
        self._now_s, self._begun = 0.0, dict[int, float]()
        self.latencies_s: list[float] = []

    def closed(self, clients: int, requests: int) -> float:
        """Requests a second of `clients` that send the next request when the last one is answered."""
        sent = 0
        while len(self.latencies_s) < requests:
            while sent < requests and len(self._begun) < clients:
                self._arrive(sent)
                sent += 1
            self._advance()
        return requests / self._now_s

    def open(self, rate: float, requests: int) -> list[float]:
        """Latencies in seconds of requests that arrive as a Poisson process of `rate` a second."""
        at_s, sent = self._random.expovariate(rate), 0
        while len(self.latencies_s) < requests:
            while sent < requests and (at_s <= self._now_s or not self._begun):
                self._now_s = max(self._now_s, at_s)
                self._arrive(sent)
                sent, at_s = sent + 1, at_s + self._random.expovariate(rate)
            self._advance(at_s if sent < requests else None)
        return self.latencies_s

    def _arrive(self, request: int) -> None:
        self._begun[request] = self._now_s
        self._of(self._clients, request).queue.append((request, "send", self._costs.client_s / 2))

    def _of(self, processes: list[Process], request: int) -> Process:
        """A request's connection is with one front end."""
        return processes[request % len(processes)]

    def _start_idle(self) -> list[Process]:
        """The processes at work, after each idle one has taken what waits for it."""
        serial = [*self._clients, *self._fronts, self._engine]
        for process in serial:
            if process.now is None and process.queue:
                process.now = process.queue.popleft()
                process.left_s = process.now[2]
        for device in self._devices:
            if device.now is None and (device.queue or device.rows):
                joining = 0
                while device.queue and len(device.rows) < self._slots:
                    # lengths of sentences spread around their mean
                    steps = max(1, round(self._random.gauss(self._costs.tokens, self._costs.tokens / 3)))
                    device.rows[device.queue.popleft()] = steps
                    joining += 1
                device.now, device.left_s = "step", self._costs.step_s + joining * self._costs.request_s
        return [each for each in (*serial, *self._devices) if each.now is not None]

    def _advance(self, until_s: float | None = None) -> None:
        """To the end of the next piece of work, or to `until_s` if that comes first."""
        busy = self._start_idle()
        speed = min(1.0, self._costs.cores / max(1, len(busy)))
        step_s = min((each.left_s for each in busy), default=0.0) / speed
        if until_s is not None and self._now_s + step_s > until_s:
            step_s = max(0.0, until_s - self._now_s)
        self._now_s += step_s
        for process in busy:
            process.left_s -= step_s * speed
            if process.left_s <= 1e-12:
                self._finish(process)

    def _finish(self, process: Process) -> None:
        work, process.now = process.now, None
        if work == "step":
            for request in [r for r, left in process.rows.items() if left == 1]:
                del process.rows[request]
                if self._costs.engine_s:
                    self._engine.queue.append((request, "answered", self._costs.engine_s / 2))
                else:
                    self._of(self._fronts, request).queue.append((request, "answer", self._costs.front_end_s / 2))
            process.rows = {request: left - 1 for request, left in process.rows.items()}
            return
        request, kind, _ = work
        if kind == "send":
            self._of(self._fronts, request).queue.append((request, "parse", self._costs.front_end_s / 2))
        elif kind == "parse" and self._costs.engine_s:
            self._engine.queue.append((request, "admit", self._costs.engine_s / 2))
        elif kind in ("parse", "admit"):
            least = min(self._devices, key=lambda device: len(device.rows) + len(device.queue))
            least.queue.append(request)
        elif kind == "answered":
            self._of(self._fronts, request).queue.append((request, "answer", self._costs.front_end_s / 2))
        elif kind == "answer":
            self._of(self._clients, request).queue.append((request, "receive", self._costs.client_s / 2))
        else:
            self.latencies_s.append(self._now_s - self._begun.pop(request))


SPIN = """
import time
start, used = time.time(), time.process_time()
while time.time() - start < 1:
    pass
print(time.process_time() - used)
"""


def available_cores() -> float:
    """Cores that as many spinning programs as there are cores get in a second: fewer where the machine is busy."""
    programs = [
        subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True, start_new_session=True)
        for _ in os.sched_getaffinity(0)
    ]
    return sum(float(program.communicate(timeout=60)[0]) for program in programs)


def plan(front_end_s: float, device_s: float, requests_a_day: float) -> dict[str, float]:
    """Cores for a load, with room for its busiest hour and short queues; and the front end's own limit. front_end_s,
    device_s: processor seconds of a request."""
    core_s, mean = front_end_s + device_s, requests_a_day / DAY_S
    return {
        "requests_a_second_mean": round(mean, 2),
        "requests_a_second_peak": round(PEAK * mean, 2),
        "core_ms_a_request": round(1000 * core_s, 3),
        "cores": round(PEAK * mean * core_s / UTILISATION, 2),
        "front_end_saturates_at_requests_a_second": round(1 / front_end_s),
        "device_cores_that_saturate_it": round(device_s / front_end_s, 1),
    }


SCALE = (1, 2, 4, 8, 16, 32, 64)  # cores
CLIENTS_OF_A_CORE = 32  # of the closed loop: as many as keep every core busy


def scale(costs: Costs, several: Costs | None) -> list[dict[str, float]]:
    """The throughput of machines with so many cores for the service alone, each with the numbers of front ends and
    device processes that answer most. costs: with one front end; several: with more, None: not measured. What is not
    modelled: processes that share the bandwidth of memory and the cache, so that the figures are upper bounds."""
    rows = []
    for cores in SCALE:
        best: dict[str, float] = {}
        for front_ends in [1, *(n for n in (2, 3, 4, 6, 8, 12, 16) if several is not None and n < cores)]:
            base = costs if front_ends == 1 else several
            assert base is not None
            serving = front_ends + (front_ends > 1)  # and the engine process
            # on one core all processes take turns
            split = replace(
                base, client_s=1e-9, cores=float(cores), front_ends=front_ends, devices=max(1, cores - serving)
            )
            rate = Simulation(split).closed(CLIENTS_OF_A_CORE * cores, 150 * cores + 500)
            if rate > best.get("requests_a_second", 0.0):
                best = {
                    "cores": cores,
                    "front_ends": front_ends,
                    "device_processes": split.devices,
                    "requests_a_second": round(rate),
                    "tokens_a_second": round(rate * base.tokens),
                }
        rows.append(best)
    return rows


def memory(server: Server) -> dict[str, float]:
    """Proportional set size in MB of the one front end and of its device processes."""
    sizes = []
    for pid in server.pids():
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024)
    return {"front_end_mb": round(sizes[0]), "devices_mb": round(sum(sizes[1:]))}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity")
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"), help="the demo models")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measured loop")
    parser.add_argument("--devices", type=int, default=2, help="device processes")
    parser.add_argument("--front-ends", type=int, default=2, help="of a second server, for the scale; 1: none")
    parser.add_argument("--json", action="store_true", help="one object as the last line")
    parser.add_argument("--out", type=Path, help="a file that gets the object too")
    options = parser.parse_args(arguments)
    folder = options.checkpoints.resolve()
    with ours(folder, cpu_workers=options.devices, beam_size=1, models=MODEL, request_log=False) as server:
        loops, cores = dict[int, Loop](), dict[int, float]()
        for clients in (*INPUTS, *VALIDATED):
            before = available_cores()
            loops[clients] = asyncio.run(measure(server, clients, options.seconds))
            cores[clients] = (before + available_cores()) / 2
        used = memory(server)
    costs = fit(loops[INPUTS[0]], loops[INPUTS[1]], options.devices, cores[INPUTS[1]])
    several = None
    if options.front_ends > 1:
        setting = {"cpu_workers": options.devices, "beam_size": 1, "models": MODEL, "request_log": False}
        with ours(folder, front_ends=options.front_ends, **setting) as server:
            pair = [asyncio.run(measure(server, clients, options.seconds)) for clients in INPUTS]
        several = fit(pair[0], pair[1], options.devices, cores[INPUTS[1]])
    points = []
    for clients in VALIDATED:
        predicted = Simulation(replace(costs, cores=cores[clients])).closed(clients, 3000)
        ratio, found = predicted / loops[clients].rate, round(cores[clients], 2)
        points.append(
            {"clients": clients, "cores": found, "measured": round(loops[clients].rate, 1),
             "predicted": round(predicted, 1), "ratio": round(ratio, 3)}
        )  # fmt: skip
    few, many = (loops[clients] for clients in INPUTS)
    day = plan(costs.front_end_s, few.device_s / few.requests, 1e6)  # small batches, as at a load with short queues
    service = replace(costs, client_s=1e-6, cores=float(options.devices + 1))
    quiet = sorted(Simulation(service).open(UTILISATION * 1 / day["core_ms_a_request"] * 1000, 3000))
    values = {
        "costs": {name: getattr(costs, name) for name in Costs.__dataclass_fields__},
        "measured": {str(n): round(loop.rate, 1) for n, loop in loops.items()},
        "tokens_a_second_of_a_device_core": round(many.rows / many.device_s),
        "validation": points,
        "costs_of_several_front_ends": several
        and {name: getattr(several, name) for name in Costs.__dataclass_fields__},
        "scale": scale(costs, several),
        "memory": used,
        "a_million_requests_a_day": day,
        "p99_ms_at_one_core's_load": round(1000 * quiet[int(0.99 * len(quiet))], 1),
    }
    goals = [
        report.goal(
            f"predicted over measured throughput, {p['clients']} clients: distance from 1",
            round(abs(p["ratio"] - 1), 3),
            0.2,
            "",
            "lower",
        )
        for p in points
    ]
    report.finish("capacity", [values], goals, as_json=options.json, out=options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
