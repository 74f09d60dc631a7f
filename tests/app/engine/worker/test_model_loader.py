"""Other models go on while a checkpoint is read."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from app.engine.protocol import messages as m
from app.engine.protocol.messages import Load
from app.engine.worker import model_runner as runner_module
from app.engine.worker.model_runner import LoadResult, ModelLoader, ModelRunner
from app.engine.worker.scheduler import Scheduler
from models.backends import select
from models.checkpoint import CheckpointError
from models.interface import Precision
from models.networks.loading import load_network
from tests.request_builders import decode_message

FAR = 1e12


class Reading:
    """A scheduler that reads its checkpoints when the test allows it."""

    def __init__(self, root: Path) -> None:
        self.runner, self.root = ModelRunner("cpu", 1, slots=4), root
        self.results, self.order = list[LoadResult](), list[str]()
        self.may_read, self.has_result = threading.Semaphore(0), threading.Semaphore(0)
        self.loader = ModelLoader(self._read, self._add_result)
        self.scheduler = Scheduler(self.runner, loader=self.loader)

    def _read(self, load: m.Load) -> Any:
        assert self.may_read.acquire(timeout=30)
        self.order.append(load.name)
        return self.runner.read(load)

    def _add_result(self, result: LoadResult) -> None:
        self.results.append(result)
        self.has_result.release()

    def ask(self, name: str, folder: str = "tiny-lyrics") -> None:
        assert self.scheduler.handle(m.Load(name, str(self.root / folder))) == []

    def let_read(self) -> m.FromDevice:
        """What the device says of the next one."""
        self.may_read.release()
        assert self.has_result.acquire(timeout=30)
        (reply,) = self.scheduler.handle(self.results.pop(0))
        return reply

    def decoded(self, model: str, new_tokens: int = 5) -> list[int]:
        assert self.scheduler.handle(decode_message(1, model, [], [1], FAR, new_tokens)) == []
        for _ in range(new_tokens):
            for reply in self.scheduler.step():
                if isinstance(reply, m.Finished):
                    return reply.hypotheses[0].tokens
        raise AssertionError("it was not decoded")


@pytest.fixture
def reading(tiny_checkpoints: Path) -> Reading:
    return Reading(tiny_checkpoints)


def test_a_model_decodes_while_another_is_read(reading: Reading) -> None:
    reading.ask("a@1")
    loaded = reading.let_read()
    assert isinstance(loaded, m.Loaded)
    assert loaded.name == "a@1"
    alone = reading.decoded("a@1")
    reading.ask("a@2")  # whose reading the test never allows
    assert reading.loader.busy
    assert reading.decoded("a@1") == alone
    assert isinstance(reading.scheduler.handle(decode_message(2, "a@2", [], [1], FAR, 5))[0], m.Failed)
    assert isinstance(reading.let_read(), m.Loaded)
    assert reading.decoded("a@2") == alone
    assert len(alone) == 5


def test_checkpoints_are_read_one_after_another_in_order(reading: Reading) -> None:
    for name in ("a@1", "b@1", "c@1"):
        reading.ask(name)
    assert [reading.let_read().name for _ in range(3)] == ["a@1", "b@1", "c@1"]  # type: ignore[union-attr]
    assert reading.order == ["a@1", "b@1", "c@1"]


def test_a_model_that_is_unloaded_while_it_is_read_is_not_kept(reading: Reading) -> None:
    reading.ask("a@1")
    assert reading.scheduler.handle(m.Unload("a@1")) == []
    assert isinstance(reading.let_read(), m.Loaded)  # an answer all the same: someone may count on one
    assert reading.runner.models == {}
    assert reading.scheduler.queues == {}


def test_broken_checkpoint_is_reported_and_the_next_is_loaded(reading: Reading) -> None:
    reading.ask("none@1", "there-is-none")
    reading.ask("a@1")
    failed = reading.let_read()
    assert isinstance(failed, m.LoadFailed)
    assert (failed.name, "config.json is missing" in failed.reason) == ("none@1", True)
    assert isinstance(reading.let_read(), m.Loaded)
    assert [*reading.runner.models] == ["a@1"]


def test_slots_beyond_memory_are_reported_at_load(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise MemoryError("no room for the slots")

    monkeypatch.setattr(reading.runner, "install", full)
    reading.ask("a@1")
    failed = reading.let_read()
    assert isinstance(failed, m.LoadFailed)
    assert "lacks the memory for a" in failed.reason
    assert reading.scheduler.queues == {}


def test_an_architecture_is_measured_once(
    tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    measured = []

    def fastest(network: Any, device: Any) -> Any:
        measured.append(network)
        return select.select(network, "bf16"), {"bf16": 1.0, "fp32": 2.0}

    monkeypatch.setattr(runner_module, "fastest", fastest)
    runner = ModelRunner("cpu", 1, slots=4, precision="auto")
    with caplog.at_level(logging.INFO, "app.engine.worker.model_runner"):
        for name, folder in (("a@1", "tiny-de-en"), ("b@1", "tiny-lyrics"), ("a@2", "tiny-de-en")):
            runner.install(name, runner.read(Load(name, str(tiny_checkpoints / folder))))
    assert len(measured) == 2
    assert caplog.text.count("computes in bf16 on cpu") == 3
    assert "a@2 computes in bf16 on cpu, as its like does" in caplog.text


@pytest.mark.parametrize("fails_in", ["selection", "step"])
def test_network_that_fails_in_the_precision_of_its_like_is_measured_itself(
    tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails_in: str
) -> None:
    """As an edited network of the same architecture may."""
    networks = list[Any]()

    def loaded(checkpoint: Any) -> Any:
        networks.append(load_network(checkpoint))
        return networks[-1]

    def edited(network: Any, precision: Precision = "fp32") -> Any:
        selection = select.select(network, precision)
        if network is networks[0] or precision == "fp32":
            return selection
        if fails_in == "selection":
            raise select.RefusedError("the edit does not fit bf16")
        monkeypatch.setattr(selection.decodable, "step", lambda *_: 1 / 0, raising=False)
        return selection

    def fastest(network: Any, device: Any) -> Any:
        best: Precision = "bf16" if network is networks[0] else "fp32"
        return edited(network, best), {best: 1.0}

    for name, replacement in (("load_network", loaded), ("select", edited), ("fastest", fastest)):
        monkeypatch.setattr(runner_module, name, replacement)
    runner = ModelRunner("cpu", 1, slots=4, precision="auto")
    with caplog.at_level(logging.INFO, "app.engine.worker.model_runner"):
        for name in ("a@1", "a@2"):
            runner.install(name, runner.read(Load(name, str(tiny_checkpoints / "tiny-de-en"))))
    assert [runner.models[name].precision for name in ("a@1", "a@2")] == ["bf16", "fp32"]
    assert "a@2 fails in bf16, in which its like computes" in caplog.text


def test_invalid_load_order_does_not_end_the_loader_thread(reading: Reading, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has changed since"):
        reading.runner.read(Load("a@1", str(reading.root / "tiny-lyrics"), {"model.safetensors": "0"}))
    reading.ask("a@1", str(tmp_path))
    assert isinstance(reading.let_read(), m.LoadFailed)
    reading.ask("a@2")
    assert isinstance(reading.let_read(), m.Loaded)
