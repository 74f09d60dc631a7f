"""Inspections in a thread beside the decoding steps, and the threads of their own passes."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from app.engine.protocol import messages as m
from app.engine.worker import inspection
from app.engine.worker.inspection import NICENESS, InspectionResult, InspectionRun, InspectionThread
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler
from models.decoding.options import DecodingOptions
from models.inspection.selection import Head
from tests.app.engine.fake_clock import Clock
from tests.app.engine.scheduler_driver import FAR
from tests.request_builders import decode_message, inspect_attention

PAIRS = [
    m.TokenPair([5, 6, 3], [2, 4, 7, 3], 1, [0, 1, None], [0, 1, None]),
    m.TokenPair([9, 3], [2, 4, 7, 3], 1, [0, None], [0, 1, None]),
]
ALIGN = m.AlignPairs(7, "tiny-de-en", PAIRS, nats=True)
WAIT_S = 10


class Gate:
    """Holds calls of a function until the test opens it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.entered, self.running, self.most = threading.Semaphore(0), 0, 0
        self._open, work = threading.Semaphore(0), getattr(inspection, name)

        def held(*given: Any, **named: Any) -> Any:
            self.running += 1
            self.most = max(self.most, self.running)
            self.entered.release()
            assert self._open.acquire(timeout=WAIT_S)
            self.running -= 1
            return work(*given, **named)

        monkeypatch.setattr(inspection, name, held)

    def wait(self) -> None:
        assert self.entered.acquire(timeout=WAIT_S), "nothing is computed"

    def open(self) -> None:
        self._open.release()


class Device:
    """A scheduler with its thread, and what a main loop does with the results."""

    def __init__(self, scheduler: Scheduler, hang_s: float = 60.0) -> None:
        self.results: queue.SimpleQueue[InspectionResult] = queue.SimpleQueue()
        self.thread = InspectionThread(self.results.put)
        self.scheduler = Scheduler(scheduler.runner, inspections=self.thread, inspection_hang_s=hang_s)
        self.scheduler.queues = scheduler.queues

    def result(self) -> list[Any]:
        return self.scheduler.handle(self.results.get(timeout=WAIT_S))

    def answer(self, message: Any) -> Any:
        self.scheduler.handle(message)
        assert self.scheduler.step() == []
        (reply,) = self.result()
        return reply


@pytest.fixture
def device(scheduler: Scheduler) -> Device:
    return Device(scheduler)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch, "forced_batch")


def test_lyrics_flow_while_an_inspection_is_computed(device: Device, scheduler: Scheduler, gate: Gate) -> None:
    device.scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 40, streamed=True))
    device.scheduler.handle(ALIGN)
    device.scheduler.step()
    gate.wait()
    written = [type(reply) for _ in range(30) for reply in device.scheduler.step()]
    assert written == [m.Tokens] * 30
    assert (gate.running, device.results.empty()) == (1, True)
    gate.open()
    (answer,) = device.result()
    assert isinstance(answer, m.PairsAligned)
    scheduler.handle(m.Cancel(1))
    scheduler.handle(ALIGN)
    gate.open()
    assert scheduler.step() == [answer]  # as computed between two steps


def test_an_idle_main_loop_sleeps_while_an_inspection_is_computed(device: Device, gate: Gate) -> None:
    device.scheduler.handle(ALIGN)
    assert device.scheduler.busy
    device.scheduler.step()
    gate.wait()
    assert not device.scheduler.busy
    gate.open()
    device.result()
    assert not device.scheduler.busy


def test_inspections_are_computed_one_at_a_time_and_in_order(device: Device, gate: Gate) -> None:
    for number in range(3):
        device.scheduler.handle(m.AlignPairs(number, "tiny-de-en", PAIRS))
    answers = []
    for _ in range(3):
        device.scheduler.step()
        gate.wait()
        device.scheduler.step()
        gate.open()
        answers += [reply.id for reply in device.result()]
    assert (answers, gate.most) == ([0, 1, 2], 1)


def test_a_cancelled_inspection_ends_its_turn_when_it_no_longer_computes(device: Device, gate: Gate) -> None:
    device.scheduler.handle(ALIGN)
    device.scheduler.step()
    gate.wait()
    assert device.scheduler.handle(m.Cancel(7)) == []
    device.scheduler.handle(m.AlignPairs(8, "tiny-de-en", PAIRS))
    device.scheduler.step()
    assert gate.running == 1
    gate.open()
    (ended,) = device.result()
    assert ended.id == 7
    device.scheduler.step()
    gate.open()
    (answer,) = device.result()
    assert (type(answer), answer.id) == (m.PairsAligned, 8)
    waiting = m.AlignPairs(9, "tiny-de-en", PAIRS)
    device.scheduler.handle(waiting)
    (dropped,) = device.scheduler.handle(m.Cancel(9))  # before it has begun
    assert (dropped.id, dropped.code, device.scheduler.busy) == (9, "cancelled", False)
    assert device.scheduler.handle(m.Cancel(9)) == []


def test_a_cancelled_search_with_masked_heads_computes_no_further_part(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, work = list[int](), inspection.AblationSearch.step

    def step(search: inspection.AblationSearch) -> Any:
        steps.append(1)
        if len(steps) == 2:
            device.scheduler.handle(m.Cancel(9))
        return work(search)

    monkeypatch.setattr(inspection.AblationSearch, "step", step)
    masked = tuple(Head("cross", layer, head) for layer in range(2) for head in range(3))
    options = DecodingOptions(max_new_tokens=30)
    message = inspect_attention(9, "tiny-de-en", [4, 5, 6, 3], [2, 7], [7, 3], masked=masked, decoding=options)
    answer = device.answer(message)
    assert (answer.id, answer.code, len(steps)) == (9, "cancelled", 2)


def test_a_cancelled_inspection_that_never_ends_ends_the_process(
    scheduler: Scheduler, gate: Gate, clock: Clock
) -> None:
    device = Device(scheduler, hang_s=5.0)
    device.scheduler.handle(ALIGN)
    device.scheduler.step()
    gate.wait()
    clock.now += 100
    device.scheduler.step()  # slow, but wanted
    device.scheduler.handle(m.Cancel(7))
    clock.now += 4
    device.scheduler.step()
    clock.now += 2
    with pytest.raises(RuntimeError, match="went on for 5 seconds after it was cancelled"):
        device.scheduler.step()
    gate.open()
    device.result()
    device.scheduler.step()


def test_an_unloaded_model_answers_its_inspection_once(device: Device, gate: Gate) -> None:
    device.scheduler.handle(ALIGN)
    device.scheduler.step()
    gate.wait()
    (failed,) = device.scheduler.handle(m.Unload("tiny-de-en"))
    assert (failed.id, failed.code) == (7, "engine_unavailable")
    assert not device.scheduler.busy
    gate.open()
    assert device.result() == []
    score = m.ScoreTokens(8, "tiny-lyrics", [], [7, 8], 0, True)
    assert isinstance(device.answer(score), m.TokensScored)
    assert not device.thread.busy


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has a priority of its own on Linux alone")
def test_the_thread_has_a_lower_priority_than_decoding(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spy(*_: object) -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        raise RuntimeError("on purpose")

    monkeypatch.setattr(inspection, "score_tokens", spy)
    device.answer(m.ScoreTokens(8, "tiny-lyrics", [], [7, 8], 0, True))
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert seen == [min(19, own + NICENESS)]


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("threads", "wanted"), [(3, 3), (0, 1)])
@pytest.mark.parametrize("fails", [False, True])
def test_inspection_on_an_idle_machine_has_its_own_thread_count(
    tiny_checkpoints: Path,
    monkeypatch: pytest.MonkeyPatch,
    one_thread: None,
    threads: int,
    wanted: int,
    fails: bool,
) -> None:
    seen: list[int] = []

    def spy(*given: object) -> m.TokensScored:
        seen.append(torch.get_num_threads())
        if fails:
            raise RuntimeError("on purpose")
        nothing = m.FloatTensor([], b"")
        return m.TokensScored(1, m.ExpectedTokens(nothing, [], nothing, [], nothing))

    monkeypatch.setattr(inspection, "score_tokens", spy)
    runner = ModelRunner("cpu", 0, slots=2)
    runner.install("tiny", runner.read(m.Load("tiny", str(tiny_checkpoints / "tiny-de-en"))))
    message = m.ScoreTokens(1, "tiny", [5], [2, 5], top_k=0, by_rules=True, threads=threads)
    answer = InspectionRun(runner.models["tiny"], message).advance()
    assert isinstance(answer, m.Failed if fails else m.TokensScored)
    assert (seen, torch.get_num_threads()) == ([wanted], 1)


def test_an_inspection_with_threads_of_its_own_is_computed_between_two_steps(device: Device) -> None:
    score = m.ScoreTokens(8, "tiny-lyrics", [], [7, 8], 0, True, threads=1)
    device.scheduler.handle(score)
    (answer,) = device.scheduler.step()
    assert isinstance(answer, m.TokensScored)
    assert not device.thread.busy
