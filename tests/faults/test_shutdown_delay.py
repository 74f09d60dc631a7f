"""Between SIGTERM and the drain, as a load balancer sees a server: not ready, and answering."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.app.api.test_event_stream import events
from tests.faults.test_process_faults import KEY, LONG, ready, status_of
from tests.serving import Server, serving
from tests.test_end_to_end import gone, wait_for

pytestmark = pytest.mark.faults
FOREVER = "300"  # seconds: the test ends the server before


@contextlib.contextmanager
def connected(server: Server) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=30)
    try:
        connection.connect()
        yield connection
    finally:
        connection.close()


def listens(server: Server) -> bool:
    try:
        with connected(server):
            return True
    except OSError:
        return False


def test_everything_but_readiness_goes_on_during_the_delay(tiny_checkpoints: Path, tmp_path: Path) -> None:
    settings = {"SHUTDOWN_DELAY_S": FOREVER, "ADMIN_KEY": KEY}
    with serving(tiny_checkpoints, tmp_path, **settings) as server, connected(server) as kept:
        workers = server.workers()
        expected = server.ask("/generate", LONG)["text"]
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not ready(server))
        code, readiness = status_of(server, "/health/ready")
        assert (code, readiness["ready"], readiness["devices"]) == (503, False, {"cpu": "ready"})
        assert readiness["problems"] == ["The service is shutting down."]
        # each on a new connection
        assert status_of(server, "/health/live") == (200, {"status": "ok"})
        assert server.ask("/generate", LONG)["text"] == expected
        assert b"parlance:device_ready" in server.page("/metrics")
        reloaded = server.ask("/models/tiny-lyrics/reload", {}, Authorization=f"Bearer {KEY}")
        assert reloaded["model"]["version"] == 2
        # and on one that was there before the signal
        kept.request("POST", "/generate", json.dumps({**LONG, "stream": True}))
        *_, (last, done) = events(kept.getresponse().read().decode())
        assert (last, done["text"]) == ("done", expected)
        os.kill(workers[0], signal.SIGKILL)  # a device process that dies is started again, too
        wait_for(lambda: server.workers() != workers)
        wait_for(lambda: status_of(server, "/generate", LONG)[0] == 200)
        assert server.process.poll() is None


def test_the_drain_follows_the_delay(tiny_checkpoints: Path, tmp_path: Path) -> None:
    """New connections and a request that was half sent are refused then; a request of the delay itself ends."""
    settings = {"SHUTDOWN_DELAY_S": "5", "DRAIN_TIMEOUT_S": "60", "WORKER_HANG_TIMEOUT_S": "60"}
    with serving(tiny_checkpoints, tmp_path, **settings) as server, ThreadPoolExecutor(1) as client:
        (worker,) = server.workers()
        with connected(server) as half:
            body = json.dumps(LONG).encode()
            half.putrequest("POST", "/generate")
            half.putheader("Content-Length", str(len(body)))
            half.endheaders(body[:-1])
            os.kill(worker, signal.SIGSTOP)  # so that the running request outlasts the delay
            server.process.send_signal(signal.SIGTERM)
            running = client.submit(status_of, server, "/generate", LONG)
            wait_for(lambda: not listens(server))
            half.send(body[-1:])
            answer = half.getresponse()
            assert answer.status == 503
            assert "shutting down" in json.load(answer)["error"]
        os.kill(worker, signal.SIGCONT)
        assert running.result()[0] == 200
        assert server.process.wait(30) == 0
        wait_for(lambda: gone(worker))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_within_the_delay_ends_at_once(
    number: int, code: int, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    with serving(tiny_checkpoints, tmp_path, SHUTDOWN_DELAY_S=FOREVER) as server:
        (worker,) = server.workers()
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not ready(server))
        server.process.send_signal(number)
        assert server.process.wait(10) == code
        wait_for(lambda: gone(worker))


def test_ctrl_c_does_not_wait(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, SHUTDOWN_DELAY_S=FOREVER) as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
