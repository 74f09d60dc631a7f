"""The host's time of one decoding step with CUDA graphs, without the device: the engine of a device process runs with a
device that computes nothing, whose graphs are no-ops and whose results are prepared.

    python -m benchmarks.host_time [--json] [--rounds N]

A step is one turn of the device process's main loop: reading the socket, the scheduler, the decoder, and writing what
there is to say. Requests arrive before the measured steps and outlive them, so that this is the time of a step in which
none joins or leaves. A batch is of so many sentences; a beam of 4 has 4 rows for each. Of every beam a hypothesis ends
in every sixth step, as in sentences of 25 tokens. Phases are the medians over all steps of all rounds, of the process's
own clock; "step" is the median of whole steps. The calls of CUDA itself (a graph's launch, a copy, an event) are not in
the figures: only a GPU shows them."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import socket
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from app.engine.protocol import messages as m
from app.engine.worker.channel import Channel
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.request_queue import ModelQueue
from app.engine.worker.scheduler import Scheduler
from benchmarks.report import finish, goal
from models.backends.torch.cuda_graph import Graphed, Recording, StepShape
from models.backends.torch.transfers import Readback
from models.decoding.decoder import Decoder
from models.decoding.device_step import DeviceStep
from models.decoding.options import DecodingOptions, TokenRules
from models.interface import Prompt

EOS, VOCABULARY, RESULTS = 2, 64, 24
MAX_NEW_TOKENS = 500
PHASES = ("submit", "wait", "bookkeeping", "scheduler", "messages")
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"temperature": 0.8, "top_k": 40, "top_p": 0.9},
    "beam 4": {"beam_size": 4},
}
AIMS = {1: 60.0, 32: 60.0, 128: 60.0, 512: 120.0}


class NoDevice:
    """A `Recordable` that computes nothing and keeps what a Transformer keeps on the host."""

    device, vocabulary = torch.device("cpu"), VOCABULARY

    def allocate(self, slots: int, source_length: int, target_length: int) -> Any:
        return SimpleNamespace(lengths=np.zeros(slots, dtype=np.int64), sizes=(target_length, source_length))

    def prefill(self, state: Any, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        state.lengths[list(rows)] = [len(prompt.prefix) - 1 for prompt in prompts]

    def copy(self, state: Any, sources: Sequence[int], destinations: Sequence[int], since: Any = None) -> None:
        state.lengths[list(destinations)] = state.lengths[list(sources)]

    def step(self, state: Any, tokens: Tensor, group: int = 1) -> Tensor:
        raise NotImplementedError("no request here needs the host's step")

    def shape(self, state: Any, rows: int, group: int) -> StepShape:
        return StepShape(rows, group, *state.sizes)

    def stepped(self, state: Any, rows: int) -> None:
        state.lengths[:rows] += 1

    def advance(self, state: Any, tokens: Tensor, shape: StepShape) -> Tensor:
        logits = torch.randn(shape.rows, VOCABULARY)
        logits[:, EOS] = -torch.inf  # of the first step, which is no replay
        return logits

    def reorder(self, state: Any, parents: Tensor, shape: StepShape) -> None:
        """There is no cache."""


class PreparedResults:
    """A recorder whose graphs do nothing: a replay turns to the next of some prepared results. beam: the width of all
    requests."""

    def __init__(self, beam: int) -> None:
        self.beam = beam

    def record(self, step: Callable[[], Tensor]) -> Recording:
        rng = random.Random(1)
        results = itertools.cycle([self._result(step(), rng) for _ in range(RESULTS)])
        recording = Recording(lambda: None, next(results))

        def replay() -> None:
            recording.logits = next(results)

        recording.replay = replay
        return recording

    def _result(self, result: Tensor, rng: random.Random) -> Tensor:
        """A result of `DeviceStep` in which no row ends, and of every beam one candidate in every sixth step."""
        width = self.beam
        if width == 1:
            result[: len(result) // 2] = torch.tensor([rng.randrange(4, VOCABULARY) for _ in range(len(result) // 2)])
            return result
        totals, parents, tokens = result.view(3, -1, 2 * width)
        totals[:] = -torch.arange(1.0, 2 * width + 1)
        totals[:, width:] -= 50  # what ends there is no reason to stop
        for beam in range(len(tokens)):
            parents[beam] = torch.tensor([rng.randrange(width) for _ in range(2 * width)])
            tokens[beam] = torch.tensor([rng.randrange(4, VOCABULARY) for _ in range(2 * width)])
            if rng.random() < 1 / 6:
                tokens[beam, 2 * width - 1] = EOS
        return result


class ExclusiveClock:
    """Seconds by phase. A wrapped function's time counts for the innermost phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._phases: list[str] = []
        self._since = 0.0

    def wrapped(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        clock, phases, seconds = time.perf_counter, self._phases, self.seconds

        def timed(*args: Any, **kwargs: Any) -> Any:
            now = clock()
            if phases:
                seconds[phases[-1]] += now - self._since
            phases.append(phase)
            self._since = now
            try:
                return function(*args, **kwargs)
            finally:
                now = clock()
                seconds[phases.pop()] += now - self._since
                self._since = now

        return timed


@contextlib.contextmanager
def clocked() -> Iterator[ExclusiveClock]:
    clock = ExclusiveClock()
    with contextlib.ExitStack() as stack:
        for owner, name, phase in (
            (DeviceStep, "submit", "submit"),
            (DeviceStep, "arrange", "submit"),
            (Readback, "wait", "wait"),
            (Decoder, "step", "bookkeeping"),
            (Scheduler, "step", "scheduler"),
            (Channel, "send", "messages"),
            (Channel, "receive", "messages"),
        ):
            stack.enter_context(mock.patch.object(owner, name, clock.wrapped(getattr(owner, name), phase)))
        yield clock


@dataclass(frozen=True, slots=True)
class Batch:
    """kind: a key of KINDS; requests: sentences, as in `benchmarks.gpu_race`; streamed: whether every token leaves the
    process at once."""

    kind: str
    requests: int
    streamed: bool = False

    @property
    def name(self) -> str:
        return f"{self.kind}{', streamed' if self.streamed else ''}, batch {self.requests}"


def engine(batch: Batch) -> tuple[Scheduler, Decoder]:
    """A scheduler with one model, which decodes the whole batch."""
    options = DecodingOptions(max_new_tokens=MAX_NEW_TOKENS, streamed=batch.streamed, **KINDS[batch.kind])
    decoder = Decoder(
        Graphed(NoDevice(), lambda _: PreparedResults(options.beam)),
        TokenRules(EOS, (0,)),
        slots=batch.requests * options.beam,
        source_length=8,
        target_length=MAX_NEW_TOKENS,
    )
    model: Any = SimpleNamespace(decoder=decoder, slots=decoder.slots, gradual=False)
    scheduler = Scheduler(ModelRunner("cpu", 1, decoder.slots), prefill_tokens=1 << 20)
    scheduler.queues["model"] = ModelQueue(model, 1 << 20)
    for number in range(batch.requests):
        message = m.Decode(number, "model", source=[5, 6, 7], prefix=[1], deadline=1e12, options=options)
        scheduler.handle(message)
    return scheduler, decoder


def measure(batch: Batch, steps: int) -> list[dict[str, float]]:
    """Microseconds of each step by phase, and of the whole of it ("step")."""
    scheduler, decoder = engine(batch)
    ours, front_end = socket.socketpair()
    front_end.setblocking(False)
    taken = []
    with contextlib.closing(ours), contextlib.closing(front_end), clocked() as clock:
        channel = Channel(ours)
        for number in range(steps + 20):
            clock.seconds.clear()
            began = time.perf_counter()
            channel.send(scheduler.step())
            channel.receive(0)
            whole = time.perf_counter() - began
            if number >= 20:
                taken.append({phase: 1e6 * clock.seconds[phase] for phase in PHASES} | {"step": 1e6 * whole})
            with contextlib.suppress(BlockingIOError):
                while front_end.recv(1 << 20):
                    pass
    assert len(decoder.requests) == batch.requests, "requests ended in the measured steps"
    return taken


def report(batch: Batch, taken: Sequence[dict[str, float]]) -> dict[str, Any]:
    medians = {name: round(statistics.median(step[name] for step in taken), 1) for name in (*PHASES, "step")}
    return {"batch": batch.name, **{f"{name}_us": value for name, value in medians.items()}, "steps": len(taken)}


def batches() -> list[Batch]:
    every = [Batch(kind, requests) for kind in KINDS for requests in AIMS if requests < 512 or kind != "beam 4"]
    return [*every, Batch("greedy", 32, streamed=True), Batch("beam 4", 32, streamed=True)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="the host's time of one decoding step, the device excluded")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over all batches, which take turns")
    parser.add_argument("--steps", type=int, default=200, help="measured steps of a batch and round")
    parser.add_argument("--out", type=Path, help="a file that gets the object too")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    taken: dict[Batch, list[dict[str, float]]] = {batch: [] for batch in batches()}
    for _ in range(given.rounds):
        for batch, steps in taken.items():
            steps += measure(batch, given.steps)
    rows = [report(batch, steps) for batch, steps in taken.items()]
    goals = [
        goal(f"host time of a step, {batch.name}", row["step_us"], AIMS[batch.requests], "us", "lower")
        for batch, row in zip(taken, rows, strict=True)
        if not batch.streamed
    ]
    finish("host_time", rows, goals, as_json=given.json, out=given.out)


if __name__ == "__main__":
    main()
