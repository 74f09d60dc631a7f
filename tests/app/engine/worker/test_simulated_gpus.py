"""The scheduler on simulated GPUs (`tests.cuda_simulator`): its answers are those of the CPU, on several devices, after
models come and go, and after a device has run out of memory or was lost."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler
from models.decoding.options import Hypothesis
from tests import tiny
from tests.app.engine.scheduler_driver import FAR, run
from tests.cuda_simulator import SimulatedCuda, simulated_cuda
from tests.request_builders import decode_message

MODELS = ("tiny-de-en", "tiny-lyrics")
KINDS: list[dict[str, Any]] = [
    {},
    {"scores": True, "streamed": True},
    {"beam_size": 4, "n_best": 2, "scores": True},
    {"beam_size": 3, "streamed": True, "length_penalty": 0.6},
    {"beam_size": 2, "no_repeat_ngram_size": 2},
    {"beam_size": 4, "required": (((9,), (5, 7)),)},
    {"temperature": 0.9, "top_k": 5},
    {"temperature": 1.2, "top_p": 0.8, "scores": True},
    {"temperature": 0.7, "streamed": True},
    {"no_repeat_ngram_size": 2},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.4, "temperature": 0.8},
    {"presence_penalty": 0.5, "scores": True},
    {"logprobs": True, "top_logprobs": 3, "streamed": True},
]


def mixed_requests(count: int, longest: int = 16, seed: int = 7) -> list[m.Decode]:
    """Translations and lyrics with every kind of options."""
    rng = random.Random(seed)
    requests = []
    for number in range(count):
        kind = dict(rng.choice(KINDS))
        if "temperature" in kind:
            kind["seed"] = number
        source, prefix, model = [rng.randrange(4, 12) for _ in range(rng.randrange(1, 9))] + [3], [2], MODELS[0]
        if rng.random() < 0.4 and "required" not in kind:
            source, prefix, model = [], [rng.randrange(1, 20) for _ in range(rng.randrange(1, 9))], MODELS[1]
        requests.append(decode_message(number, model, source, prefix, FAR, rng.randrange(1, longest), **kind))
    return requests


def serving(device: str, folder: Path, slots: int = 6) -> Scheduler:
    """A scheduler with both models in fp32."""
    scheduler = Scheduler(ModelRunner(device, 1, slots, "fp32", beam=4))
    for name in MODELS:
        load(scheduler, folder, name)
    return scheduler


def load(scheduler: Scheduler, folder: Path, name: str) -> m.FromDevice:
    (reply,) = scheduler.handle(m.Load(name, str(folder / name)))
    return reply


def answers(replies: Sequence[Any]) -> dict[int, list[Hypothesis]]:
    assert not [reply for reply in replies if isinstance(reply, m.Failed)]
    return {reply.id: reply.hypotheses for reply in replies if isinstance(reply, m.Finished)}


def on_the_cpu(folder: Path, requests: Sequence[m.Decode]) -> dict[int, list[Hypothesis]]:
    scheduler = serving("cpu", folder)
    for request in requests:
        scheduler.handle(request)
    return answers(run(scheduler, 10**6))


def assert_same(given: dict[int, list[Hypothesis]], expected: dict[int, list[Hypothesis]]) -> None:
    """Tokens and ends are equal, log-probabilities within rounding."""
    assert given.keys() == expected.keys()
    for number, hypotheses in expected.items():
        assert [(h.tokens, h.finished) for h in given[number]] == [(h.tokens, h.finished) for h in hypotheses], number
        for one, other in zip(given[number], hypotheses, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4, nan_ok=True)
            assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=1e-4)


class Causes(logging.Handler):
    """Why steps and loads failed: the scheduler repeats a failed step. Unlike pytest's log it keeps no traceback, and
    with it the frames that hold a model's slots."""

    def __init__(self) -> None:
        super().__init__()
        self.causes = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.causes.append(f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")


@pytest.fixture(autouse=True)
def causes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    handler, log = Causes(), logging.Logger("scheduler")
    log.addHandler(handler)
    monkeypatch.setattr("app.engine.worker.scheduler.log", log)
    return handler.causes


def decode_on_two_devices(folder: Path, count: int) -> SimulatedCuda:
    """Requests arrive while others run; both devices step in turn, in one process."""
    requests = mixed_requests(count)
    expected = on_the_cpu(folder, requests)
    with simulated_cuda(devices=2) as cuda:
        schedulers = [serving(f"cuda:{index}", folder) for index in range(2)]
        replies: list[Any] = []
        waiting = list(reversed(requests))
        while waiting or any(scheduler.busy for scheduler in schedulers):
            for scheduler in schedulers:
                for _ in range(min(4, len(waiting))):
                    scheduler.handle(waiting.pop())
                replies += scheduler.step()
        assert cuda.counts.graph_launches > count / 10
    assert_same(answers(replies), expected)
    return cuda


@pytest.fixture(scope="module")
def checkpoints_for_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With heads as wide as the CUDA kernels take."""
    folder = tmp_path_factory.mktemp("wide")
    tiny.write_translator(folder / MODELS[0], "de", "en", head_width=16)
    tiny.write_lyricist(folder / MODELS[1])
    return folder


@pytest.mark.slow
def test_mixed_requests_on_two_gpus_equal_the_cpu(tiny_checkpoints: Path, causes: list[str]) -> None:
    decode_on_two_devices(tiny_checkpoints, 30)
    assert not causes


@pytest.mark.slow  # so does `test_selection`'s step on the device
def test_mixed_requests_in_our_kernels_equal_the_cpu(checkpoints_for_kernels: Path, causes: list[str]) -> None:
    cuda = decode_on_two_devices(checkpoints_for_kernels, 10)
    assert cuda.counts.kernels["attend_own"] > 0
    assert not causes


@pytest.mark.slow
def test_two_thousand_mixed_requests_on_two_gpus_equal_the_cpu(tiny_checkpoints: Path, causes: list[str]) -> None:
    decode_on_two_devices(tiny_checkpoints, 2000)
    assert not causes


class Process:
    """A device process and its front end: loads and unloads models, sends requests again that failed through no fault
    of theirs, and is replaced when an error of CUDA ends it, as the supervisor does."""

    def __init__(self, cuda: SimulatedCuda, folder: Path) -> None:
        self.cuda, self.folder = cuda, folder
        self.deaths = 0
        self.answers: dict[int, list[Hypothesis]] = {}
        self.unanswered: dict[int, m.Decode] = {}
        self.sent = set[int]()
        self.loaded = set[str]()
        self._start()

    def _start(self) -> None:
        self.scheduler = Scheduler(ModelRunner("cuda:0", 1, 6, "fp32", beam=4))
        for name in sorted(self.loaded):
            self._take(self.scheduler.handle(m.Load(name, str(self.folder / name))))

    def _do(self, work: Callable[[], Sequence[Any]]) -> None:
        try:
            self._take(work())
            return
        except RuntimeError as error:
            assert "CUDA" in str(error), error
        self.deaths += 1
        self.sent.clear()
        del self.scheduler, work
        gc.collect()
        self.cuda.replace(0)
        self._start()

    def _take(self, replies: Sequence[Any]) -> None:
        for reply in replies:
            if isinstance(reply, m.Finished):
                self.answers[reply.id] = reply.hypotheses
                del self.unanswered[reply.id]
            elif isinstance(reply, m.Failed):
                assert reply.code in ("engine_failed", "engine_unavailable")
                self.sent.discard(reply.id)
            elif isinstance(reply, m.LoadFailed):
                assert "lacks the memory" in reply.reason
                self.loaded.discard(reply.name)

    def load(self, name: str) -> None:
        if name not in self.loaded:
            self.loaded.add(name)
            self._do(lambda: self.scheduler.handle(m.Load(name, str(self.folder / name))))

    def unload(self, name: str) -> None:
        self.loaded.discard(name)
        self._do(lambda: self.scheduler.handle(m.Unload(name)))

    def reset(self, name: str) -> None:
        """A step fails: the scheduler makes new slots, and its requests start again."""
        if name in self.loaded:
            decoder = self.scheduler.queues[name].model.decoder
            decoder.step = failing  # type: ignore[method-assign]
            self.step()

    def step(self) -> None:
        for request in self.unanswered.values():
            if request.model in self.loaded and request.id not in self.sent:
                self.sent.add(request.id)
                self.scheduler.handle(request)
        self._do(lambda: self.scheduler.step())

    def finish(self) -> None:
        """Answers all requests that are left."""
        for name in MODELS:
            self.load(name)
        for _ in range(5000):
            if not self.unanswered:
                return
            self.step()
        raise AssertionError(f"unanswered: {sorted(self.unanswered)}")

    def graphs(self) -> int:
        """Of the models that are loaded."""
        return sum(len(model.decoder.state.recordings) for model in self.scheduler.runner.models.values())


def failing() -> None:
    raise RuntimeError("a hiccup")


@pytest.fixture(scope="module")
def expected(tiny_checkpoints: Path) -> tuple[list[m.Decode], dict[int, list[Hypothesis]]]:
    requests = mixed_requests(25, longest=10, seed=3)
    return requests, on_the_cpu(tiny_checkpoints, requests)


def live_through(seed: int, folder: Path, requests: Sequence[m.Decode]) -> Process:
    """Models come and go, memory runs out and the device is lost, in an order that the seed gives."""
    rng = random.Random(seed)
    with simulated_cuda(frees_workspaces=bool(seed % 2)) as cuda:
        process = Process(cuda, folder)
        for request in requests:
            process.unanswered[request.id] = request
            match rng.randrange(12):
                case 0 | 1 | 2:
                    process.load(rng.choice(MODELS))
                case 3:
                    process.unload(rng.choice(MODELS))
                case 4:
                    process.reset(rng.choice(MODELS))
                case 5:
                    cuda.fail_allocation_after(rng.randrange(400), times=rng.choice([1, 1, 3]))
                case 6:
                    cuda.fail_allocation_after(rng.randrange(100), times=rng.choice([1, 20]), in_captures=True)
                case 7:
                    if rng.random() < 0.3:
                        cuda.lose(0)
            for _ in range(rng.randrange(3)):
                process.step()
        cuda.fail_allocation_after(0, times=0)
        process.finish()
        gc.collect()
        assert len(cuda.graphs) == process.graphs()
        for name in MODELS:
            process.unload(name)
        assert not cuda.graphs
        assert not any(pool.uses for pool in cuda.devices[0].pools.values())
    return process


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_models_and_failures_in_any_order(
    seed: int, tiny_checkpoints: Path, expected: tuple[list[m.Decode], dict[int, list[Hypothesis]]], causes: list[str]
) -> None:
    requests, answers = expected
    assert_same(live_through(seed, tiny_checkpoints, requests).answers, answers)
    known = (
        "OutOfMemoryError: CUDA out of memory",
        "RuntimeError: a hiccup",
        "AcceleratorError: CUDA error: unspecified",
    )
    assert all(cause.startswith(known) for cause in causes), causes


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param({"streamed": True}, marks=pytest.mark.slow),
        pytest.param({"temperature": 0.9, "top_p": 0.9, "seed": 1}, marks=pytest.mark.slow),
        {"beam_size": 4},
    ],
)
def test_a_steady_step_waits_for_nothing(tiny_checkpoints: Path, kind: dict[str, Any]) -> None:
    """One graph and one asynchronous copy of its results a step, of translations and of lyrics."""
    with simulated_cuda() as cuda:
        scheduler = serving("cuda:0", tiny_checkpoints, slots=4)
        for number, (model, source) in enumerate(zip(MODELS, ([5, 6, 3], []), strict=True)):
            if source or "beam_size" not in kind:
                scheduler.handle(decode_message(number, model, source, [2], FAR, 30, **kind))
        for _ in range(4):
            scheduler.step()
        cuda.reset_counts()
        busy = sum(queue.busy for queue in scheduler.queues.values())
        for _ in range(10):
            scheduler.step()
        assert busy == sum(queue.busy for queue in scheduler.queues.values()), "a request ended early"
        counts = cuda.counts
        assert (counts.waits, counts.launches) == (0, 0), counts.sites
        assert counts.graph_launches == counts.event_waits == counts.copies.total() == 10 * busy
