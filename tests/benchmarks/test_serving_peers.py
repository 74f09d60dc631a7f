"""The peers answer what we answer: a race against a wrong or lame peer would prove nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler
from benchmarks.peers.batching_server import Batcher, Translator
from benchmarks.peers.gru_loop import GruLoop
from models.checkpoint import new_token_limit, read
from tests.request_builders import decode_message
from tests.tiny import GERMAN

FAR = 1e12


@pytest.fixture(autouse=True)
def _threads() -> None:
    """A peer sets the number of threads of its process; this process goes on with others' tests."""
    before = torch.get_num_threads()
    yield  # type: ignore[misc]
    torch.set_num_threads(before)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_batch_translator_says_what_the_engine_says(tiny_checkpoints: Path, beam: int) -> None:
    folder = tiny_checkpoints / "tiny-de-en"
    checkpoint = read(folder)
    scheduler = Scheduler(ModelRunner("cpu", 1, slots=8))
    scheduler.handle(m.Load("model", str(folder)))
    for number, text in enumerate(GERMAN):
        source = list(checkpoint.source_ids(text))
        most = new_token_limit(len(source), checkpoint.config.max_new_tokens)
        prefix = list(checkpoint.config.target_prefix)
        scheduler.handle(decode_message(number, "model", source, prefix, FAR, most, beam_size=beam))
    ours: dict[int, str] = {}
    while scheduler.busy:
        for reply in scheduler.step():
            assert isinstance(reply, m.Finished)
            ours[reply.id] = checkpoint.decode(reply.hypotheses[0].tokens)
    assert Translator(folder, beam=beam, threads=1).translate(GERMAN) == [ours[i] for i in range(len(GERMAN))]


def test_the_loop_writes_the_likeliest_characters_when_it_is_cold(tiny_checkpoints: Path) -> None:
    folder = tiny_checkpoints / "tiny-lyrics"
    scheduler = Scheduler(ModelRunner("cpu", 1, slots=1))
    scheduler.handle(m.Load("model", str(folder)))
    scheduler.handle(decode_message(1, "model", [], list(read(folder).target_ids("分开")), FAR, 40))
    (answer,) = [r for _ in range(40) for r in scheduler.step()]
    assert isinstance(answer, m.Finished)
    assert GruLoop(folder).stream("分开", 40, temperature=1e-6) == list(answer.hypotheses[0].tokens)


class Network:
    """Upper case, and what the batches were; `hold` keeps the first batch until the test lets it go."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.hold = threading.Event()

    def __call__(self, texts: Sequence[str]) -> list[str]:
        self.batches.append(list(texts))
        assert self.hold.wait(10)
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]


def test_next_batch_gathers_meanwhile_and_cancelled_requests_are_skipped() -> None:
    async def scenario() -> None:
        network = Network()
        batcher = Batcher(network, most=3, window_s=0.0)
        running = asyncio.create_task(batcher.run())
        first = asyncio.create_task(batcher.ask("a"))
        while not network.batches:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(batcher.ask(text)) for text in ("b", "c", "bad", "d", "e")]
        await asyncio.sleep(0)
        others[1].cancel()
        await asyncio.sleep(0)
        network.hold.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        assert results[0] == "A"
        assert isinstance(results[2], asyncio.CancelledError)
        assert [isinstance(results[i], ValueError) for i in (1, 3)] == [True, True]
        assert results[4:] == ["D", "E"]
        assert network.batches == [["a"], ["b", "bad"], ["d", "e"]]
        running.cancel()
        batcher.thread.shutdown()

    asyncio.run(scenario())


def test_a_full_batch_does_not_wait_for_the_window() -> None:
    async def scenario() -> None:
        network = Network()
        network.hold.set()
        batcher = Batcher(network, most=2, window_s=3600)
        running = asyncio.create_task(batcher.run())
        assert await asyncio.wait_for(asyncio.gather(batcher.ask("a"), batcher.ask("b")), 10) == ["A", "B"]
        running.cancel()
        batcher.thread.shutdown()

    asyncio.run(scenario())
