"""Real servers that are killed, stopped and terminated while streams run."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import tiny
from tests.faults.clients import End, ask, busy_gauges, connected, in_flight, read_to_end, send, until
from tests.serving import Server, serving
from tests.test_end_to_end import gone, wait_for

pytestmark = pytest.mark.faults
SEEDS = range(4)
NOT_HANGING_S = 5.0  # the promise is 1 s on a machine of one's own; this one may be shared


def long(seed: int, **change: Any) -> dict[str, Any]:
    """Seconds of work, which is still going on whenever something happens."""
    return {"prompt": "分开", "max_new_tokens": 2000, "seed": seed, **change}


def begin(server: Server, clients: ThreadPoolExecutor, bodies: Sequence[dict[str, Any]]) -> list[Future[End]]:
    """All are sent, and the streams among them have begun."""
    begun = threading.Semaphore(0)
    futures = [
        clients.submit(ask, server, body, begun.release if body.get("stream") else lambda: None) for body in bodies
    ]
    for body in bodies:
        if body.get("stream"):
            assert begun.acquire(timeout=30)
    until(lambda samples: in_flight(samples) == len(bodies), server)
    return futures


def last(ends: Sequence[End], since: float) -> float:
    return max(end.at for end in ends) - since


def test_32_requests_of_a_killed_worker_fail_at_once(slow_lyricist: Path, tmp_path: Path) -> None:
    with serving(slow_lyricist, tmp_path, MAX_NEW_TOKENS="2000") as server, ThreadPoolExecutor(32) as clients:
        right = {seed: ask(server, long(seed)).text for seed in SEEDS}
        (worker,) = server.workers()
        asked = begin(server, clients, [long(i % 4, stream=i % 2 < 1) for i in range(32)])
        killed = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        ends = [each.result(60) for each in asked]
        print(f"SIGKILL of the worker: the last of 32 clients ended after {last(ends, killed):.3f} s")
        for i, end in enumerate(ends):
            assert end.may_be_tried_again or end.text == right[i % 4], end
        assert any(end.event == "error" for end in ends)  # else nothing was tried here
        assert any(end.status == 503 for end in ends)
        assert last(ends, killed) < NOT_HANGING_S
        wait_for(lambda: _ready(server))
        print(f"and it was ready again after {time.monotonic() - killed:.3f} s")
        assert worker not in server.workers()
        assert ask(server, long(1)).text == ask(server, long(1, stream=True)).text == right[1]
        until(lambda samples: not busy_gauges(samples), server)


def _ready(server: Server) -> bool:
    with connected(server) as connection:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200


def test_streams_of_a_stopped_worker_end(slow_lyricist: Path, tmp_path: Path) -> None:
    """Running requests get an error event in their stream, waiting ones an error status."""
    settings = {"MAX_NEW_TOKENS": "2000", "SLOTS_PER_MODEL": "16", "WORKER_HANG_TIMEOUT_S": "1"}
    with serving(slow_lyricist, tmp_path, **settings) as server, ThreadPoolExecutor(32) as clients:
        right = ask(server, long(1)).text
        (worker,) = server.workers()
        futures = begin(server, clients, [long(1, stream=True)] * 16)
        futures += [clients.submit(ask, server, long(1, stream=True)) for _ in range(8)]
        until(lambda samples: in_flight(samples) == 24, server)
        stopped = time.monotonic()
        os.kill(worker, signal.SIGSTOP)
        ends = [future.result(60) for future in futures]
        print(f"SIGSTOP of the worker: the last of 24 streams ended after {last(ends, stopped):.3f} s")
        assert all(end.may_be_tried_again for end in ends), ends
        assert [end.event for end in ends] == ["error"] * 16 + [None] * 8
        assert last(ends, stopped) < 1 + NOT_HANGING_S
        wait_for(lambda: gone(worker) and _ready(server))
        assert ask(server, long(1, stream=True)).text == right


def test_killed_server_with_streams_leaves_no_process(slow_lyricist: Path, tmp_path: Path) -> None:
    settings = {"MAX_NEW_TOKENS": "2000", "CPU_WORKERS": "2", "CPU_THREADS": "0"}
    with serving(slow_lyricist, tmp_path, **settings) as server, ThreadPoolExecutor(8) as clients:
        wait_for(lambda: set(server.ask("/health/ready")["devices"].values()) == {"ready"})
        workers = server.workers()
        assert len(workers) == 2
        futures = begin(server, clients, [long(1, stream=True)] * 8)
        killed = time.monotonic()
        server.process.kill()
        for future in futures:
            assert isinstance(future.exception(60), http.client.IncompleteRead | ConnectionError)
        wait_for(lambda: all(map(gone, workers)))
        print(f"SIGKILL of the server: no client and no process was left after {time.monotonic() - killed:.3f} s")


def test_sigterm_drains_streams(slow_lyricist: Path, tmp_path: Path) -> None:
    with serving(slow_lyricist, tmp_path, DRAIN_TIMEOUT_S="60") as server, ThreadPoolExecutor(8) as clients:
        right = ask(server, long(1, max_new_tokens=1000)).text
        (worker,) = server.workers()
        futures = begin(server, clients, [long(1, max_new_tokens=1000, stream=True)] * 8)
        server.process.send_signal(signal.SIGTERM)
        ends = [future.result(60) for future in futures]
        assert [(end.event, end.text) for end in ends] == [("done", right)] * 8
        assert server.process.wait(20) == 0
        wait_for(lambda: gone(worker))


def test_streams_beyond_the_drain_deadline_get_an_error_event(slow_lyricist: Path, tmp_path: Path) -> None:
    settings = {"MAX_NEW_TOKENS": "2000", "DRAIN_TIMEOUT_S": "0.3"}
    with serving(slow_lyricist, tmp_path, **settings) as server, ThreadPoolExecutor(32) as clients:
        (worker,) = server.workers()
        futures = begin(server, clients, [long(1, stream=True)] * 32)
        terminated_at = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        ends = [future.result(60) for future in futures]
        print(f"SIGTERM, 0.3 s to drain: the last of 32 streams ended after {last(ends, terminated_at):.3f} s")
        assert all(end.event == "error" and end.may_be_tried_again for end in ends), ends
        assert all("shutting down" in end.body["error"] for end in ends)
        assert server.process.wait(20) == 0
        wait_for(lambda: gone(worker))


def test_streams_while_models_are_reloaded(tiny_checkpoints: Path, tmp_path: Path) -> None:
    """No stream fails, and each is of one version from its first token to its last."""
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    key = {"Authorization": "Bearer correct-horse-battery"}
    request = {"prompt": "分开", "max_new_tokens": 60, "seed": 5}
    with serving(root, tmp_path, ADMIN_KEY="correct-horse-battery") as server, ThreadPoolExecutor(4) as clients:
        right, stop = [ask(server, request).text], threading.Event()

        def stream_on() -> list[str | None]:
            texts = []
            with connected(server) as connection:
                while not stop.is_set():
                    send(connection, {**request, "stream": True})
                    texts.append(read_to_end(connection).text)
            return texts

        streaming = [clients.submit(stream_on) for _ in range(4)]
        for seed in range(20, 25):
            new = tiny.write_lyricist(root / f".new-{seed}", seed)
            shutil.rmtree(root / "tiny-lyrics")
            new.rename(root / "tiny-lyrics")
            assert server.ask("/models/tiny-lyrics/reload", {}, **key)["model"]["version"] == seed - 18
            right.append(ask(server, request).text)
            time.sleep(0.3)
        stop.set()
        texts = [text for each in streaming for text in each.result()]
        print(f"{len(texts)} streams over 6 versions, {[texts.count(text) for text in right]}")
        assert set(texts) == set(right)
        assert len(set(right)) == 6
