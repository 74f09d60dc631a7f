"""Real servers: their processes are stopped, killed and terminated."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import tiny
from tests.app.api.test_event_stream import events
from tests.readme import ROOT
from tests.serving import Server, serving
from tests.test_end_to_end import gone, wait_for

pytestmark = pytest.mark.faults
KEY = "correct-horse-battery"
LONG = {"prompt": "分开", "max_new_tokens": 1000, "seed": 5}


def status_of(server: Server, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    try:
        return 200, server.ask(path, body, **headers)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def ready(server: Server) -> bool:
    return status_of(server, "/health/ready")[0] == 200


def test_stopped_worker_is_replaced_and_its_requests_are_retryable(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, WORKER_HANG_TIMEOUT_S="1") as server, ThreadPoolExecutor(16) as clients:
        (worker,) = server.workers()
        os.kill(worker, signal.SIGSTOP)
        answers = list(clients.map(lambda _: status_of(server, "/generate", LONG), range(16)))
        assert {code for code, _ in answers} == {503}
        assert {body["code"] for _, body in answers} == {"engine_unavailable"}
        assert gone(worker)
        wait_for(lambda: ready(server))
        assert worker not in server.workers()
        assert status_of(server, "/generate", LONG)[0] == 200


def test_suspended_server_does_not_restart_its_workers(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, WORKER_HANG_TIMEOUT_S="1") as server:
        workers = server.workers()
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        server.process.send_signal(signal.SIGCONT)
        time.sleep(1.5)
        assert server.workers() == workers
        assert ready(server)


def test_second_cpu_worker_serves_when_the_first_dies(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, CPU_WORKERS="2", CPU_THREADS="0") as server:
        wait_for(lambda: set(server.ask("/health/ready")["devices"].values()) == {"ready"})
        assert server.ask("/models")[0]["devices"] == ["cpu:0", "cpu:1"]
        victim, other = server.workers()
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: "restarting" in server.ask("/health/ready")["devices"].values())  # and it is 200
        assert len(server.ask("/health/ready")["problems"]) == 1
        assert all(status_of(server, "/generate", LONG)[0] == 200 for _ in range(3))
        wait_for(lambda: set(server.ask("/health/ready")["devices"].values()) == {"ready"})
        assert other in server.workers()


def test_requests_of_a_dead_worker_are_answered_by_another(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, CPU_WORKERS="2", CPU_THREADS="0") as server, ThreadPoolExecutor(8) as all_:
        wait_for(lambda: set(server.ask("/health/ready")["devices"].values()) == {"ready"})
        expected = server.ask("/generate", LONG)["text"]
        victim, _ = server.workers()
        os.kill(victim, signal.SIGSTOP)  # so that it has some of them, unfinished, when it dies
        futures = [all_.submit(status_of, server, "/generate", LONG) for _ in range(8)]
        time.sleep(0.3)
        os.kill(victim, signal.SIGKILL)
        assert [(code, body.get("text")) for code, body in (future.result() for future in futures)] == [
            (200, expected)
        ] * 8


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_drains_requests_and_exits_with_0(sign: int, tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path) as server, ThreadPoolExecutor(4) as clients:
        workers = server.workers()
        futures = [clients.submit(status_of, server, "/generate", LONG) for _ in range(4)]
        time.sleep(0.3)
        server.process.send_signal(sign)
        assert [future.result()[0] for future in futures] == [200] * 4
        assert server.process.wait(20) == 0
        wait_for(lambda: all(map(gone, workers)))


def test_requests_beyond_the_drain_deadline_get_an_error(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, DRAIN_TIMEOUT_S="0.5") as server, ThreadPoolExecutor(8) as clients:
        (worker,) = server.workers()
        os.kill(worker, signal.SIGSTOP)  # nothing will ever be done
        futures = [clients.submit(status_of, server, "/generate", LONG) for _ in range(8)]
        kept = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=20)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        answers = [future.result() for future in futures]
        assert {code for code, _ in answers} == {503}
        assert all("shutting down" in body["error"] for _, body in answers)
        assert server.process.wait(20) == 0
        kept.close()
        wait_for(lambda: gone(worker))


def test_sigterm_ends_readiness(tiny_checkpoints: Path, tmp_path: Path) -> None:
    """A question that was half sent before the signal is answered after it; new connections are refused."""
    with serving(tiny_checkpoints, tmp_path, DRAIN_TIMEOUT_S="3") as server:
        (worker,) = server.workers()
        os.kill(worker, signal.SIGSTOP)
        busy = threading.Thread(target=status_of, args=(server, "/generate", LONG))  # something to drain
        busy.start()
        host, port = server.base.removeprefix("http://").split(":")
        question = http.client.HTTPConnection(host, int(port), timeout=20)
        question.putrequest("GET", "/health/ready")
        question.putheader("Content-Length", "2")
        question.endheaders()
        question.send(b"{")
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        with pytest.raises(OSError):
            http.client.HTTPConnection(host, int(port), timeout=2).connect()
        question.send(b"}")
        answer = question.getresponse()
        assert answer.status == 503
        assert json.load(answer)["problems"] == ["The service is shutting down."]
        question.close()
        busy.join(20)
        assert server.process.wait(20) == 0


def test_second_signal_exits_at_once(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, DRAIN_TIMEOUT_S="300") as server:
        (worker,) = server.workers()
        os.kill(worker, signal.SIGSTOP)

        def ask() -> None:
            with contextlib.suppress(OSError):
                server.ask("/generate", LONG)

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 128 + signal.SIGTERM
        thread.join(10)
        wait_for(lambda: gone(worker))


def test_uvicorn_serves_the_factory(tiny_checkpoints: Path, tmp_path: Path) -> None:
    command = ("-m", "uvicorn", "--factory", "app.main:create_app", "--port", "{port}")
    with serving(tiny_checkpoints, tmp_path, command) as server:
        (worker,) = server.workers()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(20)
        wait_for(lambda: gone(worker))


SPAWN = """
import asyncio, os, signal, sys
from app.engine.dispatch.supervisor import WorkerProcess
from app.engine.protocol import messages as m
from tests.request_builders import decode_message

async def main():
    process = WorkerProcess("cpu", on_message=lambda *_: None, on_death=lambda _: None)
    await process.start(dict(os.environ), [{first}])
    print(process.pid, flush=True)
    await asyncio.sleep({pause})
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("first", "pause"),
    [
        ("", 0.0),  # during the imports, before the signal handler is installed
        ("", 4.0),  # while it waits to be configured
        ('m.Configure("cpu", 1, 4096), *[m.Load(f"a@{i}", sys.argv[1]) for i in range(500)]', 4.0),  # while it loads
        ('m.Configure("cpu", 1, 8), m.Load("a", sys.argv[1]), decode_message(1, "a", [], [1], 1e12, 2000)', 4.0),
    ],
)
def test_workers_end_with_their_parent_at_any_moment(
    first: str, pause: float, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    code = SPAWN.format(first=first, pause=pause)
    parent = subprocess.run(
        [sys.executable, "-c", code, str(tiny_checkpoints / "tiny-lyrics")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    assert parent.returncode == -signal.SIGKILL
    wait_for(lambda: gone(int(parent.stdout)))


def test_reloads_under_load_over_http(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    key = {"Authorization": f"Bearer {KEY}"}
    with serving(root, tmp_path, ADMIN_KEY=KEY) as server, ThreadPoolExecutor(4) as clients:
        texts, stop = dict[str, int](), threading.Event()
        request = {**LONG, "max_new_tokens": 60}

        def ask_on() -> None:
            while not stop.is_set():
                text = server.ask("/generate", request)["text"]  # raises whatever is not 200
                texts[text] = texts.get(text, 0) + 1

        asking = [clients.submit(ask_on) for _ in range(4)]
        for seed in range(20, 25):
            new = tiny.write_lyricist(root / f".new-{seed}", seed)
            shutil.rmtree(root / "tiny-lyrics")
            new.rename(root / "tiny-lyrics")
            changed = server.ask("/models/tiny-lyrics/reload", {}, **key)
            assert changed["model"]["version"] == seed - 18
            time.sleep(0.3)
        (root / "tiny-lyrics" / "model.safetensors").write_bytes(b"torn")
        code, body = status_of(server, "/models/tiny-lyrics/reload", {}, **key)
        assert (code, body["code"]) == (422, "checkpoint_refused")
        time.sleep(0.3)
        stop.set()
        for request in asking:
            request.result()
        assert len(texts) == 6  # one for each version: nothing between them
        assert [model["version"] for model in server.ask("/models") if model["name"] == "tiny-lyrics"] == [6]


def test_stream_keeps_its_model_version(tiny_checkpoints: Path, tmp_path: Path) -> None:
    """The old weights are still there for what had begun with them, however slowly it is read."""
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    key = {"Authorization": f"Bearer {KEY}"}
    with serving(root, tmp_path, ADMIN_KEY=KEY, STREAM_INTERVAL_MS="0") as server:
        old = server.ask("/generate", LONG)["text"]
        connection = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=60)
        connection.request("POST", "/generate", json.dumps({**LONG, "stream": True}))
        answer = connection.getresponse()  # with the first token
        tiny.write_lyricist(root / ".new", 20)
        shutil.rmtree(root / "tiny-lyrics")
        (root / ".new").rename(root / "tiny-lyrics")
        assert server.ask("/models/tiny-lyrics/reload", {}, **key)["model"]["version"] == 2
        new = server.ask("/generate", LONG)["text"]
        *tokens, (last, done) = events(answer.read().decode())
        connection.close()
        assert last == "done"
        assert "".join(token["text"] for _, token in tokens) == done["text"] == old != new
