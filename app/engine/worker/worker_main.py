"""The main loop of a device process: reads messages, drives the scheduler, writes answers. One process for each device.

`python -m app.engine.worker.worker_main.worker_main FD`, where FD is one end of a socket pair whose other end the
front end holds. When that end closes, however the parent ended, this process ends too."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from app import logs
from app.engine.protocol import messages as m
from app.engine.worker.channel import Channel
from app.engine.worker.model_loader import LoadResult, ModelLoader
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler

log = logging.getLogger(__name__)


def serve(connection: socket.socket) -> None:
    inbox = Channel(connection)
    inbox.start()

    def send(messages: list[Any]) -> None:
        if messages:
            connection.sendall(m.frame(messages))

    first, *others = inbox.take(None)
    assert isinstance(first, m.Configure), "the first message configures the process"
    logs.set_up_logging(first.log_level, first.log_format)
    runner = ModelRunner(first.device, first.threads, first.slots, first.precision, first.beam, first.look_threads)
    loading = ModelLoader(runner.read_as_asked, inbox.put)
    scheduler = Scheduler(runner, first.prefill_tokens, first.stream_interval_s, loading)
    gc.collect()
    gc.freeze()  # modules stay to the end: no full collection walks through them between two steps
    send([m.Started(first.device)])
    work(inbox, scheduler, send, others, first.beat_s)
    if loading.busy:
        os._exit(0)  # its thread would be torn out of torch


def work(
    inbox: Channel,
    scheduler: Scheduler,
    send: Callable[[list[Any]], None],
    pending: list[m.ToDevice | LoadResult],
    beat_s: float,
) -> None:
    """The main loop. It sends its own beats: a thread beside it would go on beating when the loop hangs."""
    next_beat = time.monotonic()
    while True:
        if not hear(pending, scheduler, send):
            return
        send(scheduler.step())
        if (now := time.monotonic()) >= next_beat:
            send([m.Heartbeat(scheduler.statistics())])
            next_beat = now + beat_s
        pending = inbox.take(0 if scheduler.busy else max(next_beat - now, 0))


def hear(messages: list[m.ToDevice | LoadResult], scheduler: Scheduler, send: Callable[[list[Any]], None]) -> bool:
    """Whether to go on. The list is emptied: an idle process must not hold the network that the last one brought."""
    while messages:
        message = messages.pop(0)
        if isinstance(message, m.Stop):
            return False
        send(scheduler.handle(message))
    return True


def die_with_parent() -> None:
    """Ask Linux for a SIGKILL when the parent ends (to be exact, its thread that spawned us: that of the event loop);
    elsewhere the closed socket has to do."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main() -> None:
    die_with_parent()
    # a supervisor may signal every process of a service; the parent drains, then stops us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logs.set_up_logging("warning", "text")  # until it is configured
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        serve(connection)
    except ConnectionError:
        log.info("the front end is gone")
        os._exit(0)  # whatever other threads are at
    except Exception:
        log.exception("the main loop failed")
        os._exit(1)


if __name__ == "__main__":
    main()
