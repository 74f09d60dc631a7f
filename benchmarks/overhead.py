"""The cost of HTTP, the front end and the socket to the device process: at one client without pauses, and at
saturation, against the engine alone.

The engine alone is a process with `app.engine.worker.scheduler` over `app.engine.worker.model_runner`, as a device
process has them. It gets its requests over a pipe, which is not timed.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.load import answered, translation
from benchmarks.servers import Server

FAR = 1e12


class Run(NamedTuple):
    seconds: float
    tokens: int


class Engine:
    """The near end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def translate(self, texts: Sequence[str], beam: int) -> Run:
        """All texts queued at once; the seconds until the last has ended, tokenizing both ways included."""
        self._pipe.send((list(texts), beam))
        result = self._pipe.recv()
        assert isinstance(result, Run)
        return result


@contextlib.contextmanager
def engine(folder: Path, *, threads: int, slots: int) -> Iterator[Engine]:
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=_serve, args=(far, folder, threads, slots), daemon=True)
    process.start()
    far.close()
    try:
        assert near.recv() == "ready"
        yield Engine(near)
    finally:
        near.close()
        process.join(10)
        if process.is_alive():
            process.kill()


def _serve(pipe: Connection, folder: Path, threads: int, slots: int) -> None:
    # here, so that the parent of many processes does not load torch for this one
    from app.engine.protocol import messages as m
    from app.engine.worker.model_runner import ModelRunner
    from app.engine.worker.scheduler import Scheduler
    from models import checkpoint as checkpoints

    scheduler = Scheduler(ModelRunner("cpu", threads, slots, "auto"))
    checkpoint = checkpoints.read(folder)
    reply = scheduler.handle(m.Load("model", str(folder)))
    assert isinstance(reply[0], m.Loaded), reply
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            texts, beam = pipe.recv()
            pipe.send(_timed(scheduler, checkpoint, texts, beam))


def _timed(scheduler: Any, checkpoint: Any, texts: Sequence[str], beam: int) -> Run:
    from app.engine.protocol import messages as m
    from models.checkpoint import new_token_limit
    from models.decoding.options import DecodingOptions

    config, tokens = checkpoint.config, 0
    started = time.perf_counter()
    for number, text in enumerate(texts):
        source = list(checkpoint.source_ids(text))
        most = new_token_limit(len(source), config.max_new_tokens)
        prefix = list(config.target_prefix)
        options = DecodingOptions(max_new_tokens=most, beam_size=beam, n_best=beam, scores=False, streamed=False)
        scheduler.handle(m.Decode(number, "model", source, prefix, FAR, options))
    while scheduler.busy:
        for reply in scheduler.step():
            assert not isinstance(reply, m.Failed), reply
            if isinstance(reply, m.Finished):
                best = reply.hypotheses[0]
                checkpoint.decode(best.tokens)
                tokens += len(best.tokens)
    return Run(time.perf_counter() - started, tokens)


async def one_client(
    server: Server, alone: Engine, texts: Sequence[str], beam: int, repeats: int, **fields: Any
) -> dict[str, Any]:
    """The sentences one after another over HTTP and then in the engine alone, repeated; the fastest time of each
    sentence on either side, which excludes disturbances of single runs; the median of the differences. The client's own
    share is in them. fields: more of each request, such as its key."""
    http, inside = list[list[float]](), list[list[float]]()
    for _ in range(repeats):
        await answered(server, [translation(text, **fields) for text in texts[:5]], 1)
        outcomes, _ = await answered(server, [translation(text, **fields) for text in texts], 1)
        http.append([outcome.latency_s for outcome in outcomes])
        await asyncio.to_thread(alone.translate, texts[:1], beam)
        inside.append([(await asyncio.to_thread(alone.translate, [text], beam)).seconds for text in texts])
    whole_s, engine_s = ([min(times) for times in zip(*runs, strict=True)] for runs in (http, inside))
    differences = [1000 * (a - b) for a, b in zip(whole_s, engine_s, strict=True)]
    return {
        "overhead": "one client that asks without a pause, the engine alone in its own process",
        "sentences": len(differences),
        "http_ms": round(1000 * statistics.median(whole_s), 2),
        "engine_ms": round(1000 * statistics.median(engine_s), 2),
        "difference_ms": round(statistics.median(differences), 2),
    }


async def saturated(
    server: Server, alone: Engine, texts: Sequence[str], beam: int, concurrency: int, repeats: int
) -> dict[str, Any]:
    """The same sentences through HTTP with `concurrency` clients and in the engine alone, in turn: the share of the
    engine's throughput that is kept."""
    requests, shares, http, inside = [translation(text) for text in texts], [], [], []
    for _ in range(repeats):
        run = await asyncio.to_thread(alone.translate, texts, beam)
        _, seconds = await answered(server, requests, concurrency)
        shares.append(run.seconds / seconds)
        http.append(run.tokens / seconds)
        inside.append(run.tokens / run.seconds)
    return {
        "throughput": f"{len(texts)} sentences, {concurrency} clients",
        "http_tokens_per_s": round(statistics.median(http)),
        "engine_tokens_per_s": round(statistics.median(inside)),
        "kept": round(statistics.median(shares), 3),
        "kept_each": [round(share, 3) for share in shares],
    }
