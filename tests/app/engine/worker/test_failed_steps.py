"""Steps, prefills and loads that fail: for want of memory, once, again, or with their device."""

from __future__ import annotations

import logging
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from app.engine.protocol import messages as m
from app.engine.worker.scheduler import Scheduler
from tests.app.engine.scheduler_driver import FAR, alone, fails, requests, run
from tests.request_builders import decode_message


def test_failed_step_is_repeated_unnoticed(
    scheduler: Scheduler, tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [r for r in requests(20) if r.model == "tiny-lyrics"]
    for request in messages:
        scheduler.handle(request)
    replies = scheduler.step() + scheduler.step()
    fails(monkeypatch, scheduler.queues["tiny-lyrics"].model.decodable, "step", 1, RuntimeError("a hiccup"))
    replies += run(scheduler)
    finished = {r.id: [h.tokens for h in r.hypotheses] for r in replies if isinstance(r, m.Finished)}
    assert finished == {request.id: alone(tiny_checkpoints, request) for request in messages}


def test_repeatedly_failing_step_fails_only_its_model(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    network = scheduler.queues["tiny-lyrics"].model.decodable
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 50))
    scheduler.handle(decode_message(2, "tiny-de-en", [5, 3], [2], FAR, 5))
    scheduler.handle(decode_message(4, "tiny-lyrics", [], [1], FAR, 50, streamed=True))
    scheduler.step()
    fails(monkeypatch, network, "step", 2, RuntimeError("no luck"))
    for unlucky in (4, 1):
        replies = scheduler.step()
        assert [(r.id, r.code) for r in replies if isinstance(r, m.Failed)] == [(unlucky, "engine_failed")]
    scheduler.handle(decode_message(3, "tiny-lyrics", [], [1], FAR, 5))
    assert sorted(r.id for r in run(scheduler) if isinstance(r, m.Finished)) == [2, 3]


def test_a_step_on_a_lost_device_ends_the_process(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = RuntimeError("CUDA error: device-side assert triggered")
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 50))
    fails(monkeypatch, scheduler.queues["tiny-lyrics"].model.decodable, "step", 1, lost)
    fails(monkeypatch, scheduler.runner, "check", 1, lost)
    with pytest.raises(RuntimeError, match="device-side assert"):
        scheduler.step()


def test_new_slots_are_made_after_the_old_ones_are_gone(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    model = scheduler.queues["tiny-lyrics"].model
    old, allocate, alive = weakref.ref(model.decoder), model.decodable.allocate, []

    def watched(*given: Any) -> Any:
        alive.append(old())
        return allocate(*given)

    monkeypatch.setattr(model.decodable, "allocate", watched)
    # the tests' own log keeps every traceback, and with it the frames that hold the slots
    monkeypatch.setattr("app.engine.worker.scheduler.log", logging.Logger("nobody listens"))
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 3))
    fails(monkeypatch, model.decodable, "step", 1, RuntimeError("a hiccup"))
    run(scheduler)
    assert alive == [None]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_a_prefill_without_memory_is_halved_until_it_fits(
    error: Exception, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = scheduler.queues["tiny-lyrics"]
    prefill, sizes = lane.model.decodable.prefill, list[int]()

    def small(state: Any, rows: Any, prompts: Any) -> None:
        sizes.append(len(prompts))
        if len(prompts) > 2 or len(prompts[0].prefix) > 100:
            raise error
        prefill(state, rows, prompts)

    monkeypatch.setattr(lane.model.decodable, "prefill", small)
    # the check of a lost device allocates too: where memory is short it would end the process for nothing
    monkeypatch.setattr(scheduler.runner, "check", lambda: pytest.fail("took a full device for a lost one"))
    for number in range(8):
        scheduler.handle(decode_message(number, "tiny-lyrics", [], [1, 2], FAR, 3))
    assert [type(r) for r in run(scheduler)] == [m.Finished] * 8
    assert sizes == [8, 4, 2, 2, 4, 2, 2]
    scheduler.handle(decode_message(9, "tiny-lyrics", [], [1] * 101, FAR, 3))
    scheduler.handle(decode_message(10, "tiny-lyrics", [], [1], FAR, 3))
    failed, finished = run(scheduler)
    assert (failed.id, failed.code, finished.id) == (9, "engine_failed", 10)
    assert "lacks the memory to read these 101 tokens; send a shorter text" in failed.reason


def test_a_load_without_memory_is_refused_and_the_process_goes_on(
    scheduler: Scheduler, tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, scheduler.runner, "install", 1, torch.OutOfMemoryError("CUDA out of memory."))
    monkeypatch.setattr(scheduler.runner, "check", lambda: pytest.fail("took a full device for a lost one"))
    load = m.Load("more@2", str(tiny_checkpoints / "tiny-lyrics"))
    (refused,) = scheduler.handle(load)
    assert isinstance(refused, m.LoadFailed)
    assert "lacks the memory for more: unload another model" in refused.reason
    assert isinstance(scheduler.handle(load)[0], m.Loaded)


def test_a_lost_device_ends_the_process_instead_of_failing_every_request(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(scheduler.queues["tiny-lyrics"].model.decodable, "prefill", lost)
    scheduler.handle(decode_message(1, "tiny-lyrics", [], [1], FAR, 5))
    (reply,) = scheduler.step()  # the device itself still answers
    assert isinstance(reply, m.Failed)
    assert reply.code == "engine_failed"
    monkeypatch.setattr(scheduler.runner, "check", lost)
    scheduler.handle(decode_message(2, "tiny-lyrics", [], [1], FAR, 5))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        scheduler.step()
