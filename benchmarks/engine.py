"""The engine alone, in a process of its own without HTTP and front end: the baseline of serving overhead.

The process holds `app.engine.worker.scheduler` over `app.engine.worker.model_runner`, as a device process does, and
gets its requests over a pipe; the pipe is not timed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

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
def engine(folder: Path, *, threads: int, slots: int, precision: str) -> Iterator[Engine]:
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=_serve, args=(far, folder, threads, slots, precision), daemon=True)
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


def _serve(pipe: Connection, folder: Path, threads: int, slots: int, precision: str) -> None:
    # here, so that the parent of many processes does not load torch for this one
    from app.engine.protocol import messages as m
    from app.engine.worker.model_runner import ModelRunner
    from app.engine.worker.scheduler import Scheduler
    from models import checkpoint as checkpoints

    scheduler = Scheduler(ModelRunner("cpu", threads, slots, precision))
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
