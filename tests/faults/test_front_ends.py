"""Real front-end processes: they are one server, and are stopped, killed and terminated."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.app.api.test_event_stream import events
from tests.faults.clients import in_flight, scrape
from tests.faults.test_process_faults import KEY, LONG, ready
from tests.readme import ROOT
from tests.serving import Server, serving
from tests.test_end_to_end import gone, wait_for

pytestmark = pytest.mark.faults
TRANSLATE = {"q": "ich möchte ein bier", "source": "de", "target": "en"}
TWO = {"FRONT_ENDS": "2"}
SLOW = {**LONG, "max_new_tokens": 400}  # of the slow lyricist: longer than a front end takes to start


def front_ends(server: Server) -> list[int]:
    return [pid for pid in server.workers() if b"app.front_ends.front_end" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def owner(server: Server, connection: http.client.HTTPConnection) -> int:
    """The front end that has accepted a connection: the one with the socket whose remote port is the client's."""
    port = f"{connection.sock.getsockname()[1]:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{fields[9]}]" for fields in lines if fields[2].endswith(f":{port}")}
    for pid in front_ends(server):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(descriptor.readlink()) in inodes:
                    return pid
    raise AssertionError("no front end has the connection")


def exchange(connection: http.client.HTTPConnection, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and JSON; text of a stream or page."""
    method, data = ("GET", None) if body is None else ("POST", json.dumps(body))
    connection.request(method, path, data, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    content = answer.read().decode()
    return answer.status, json.loads(content) if "json" in answer.headers["Content-Type"] else content


@contextlib.contextmanager
def connections(server: Server, of_each: int = 1) -> Iterator[dict[int, list[http.client.HTTPConnection]]]:
    """Connections that are open, by front end."""
    by_owner: dict[int, list[http.client.HTTPConnection]] = {pid: [] for pid in front_ends(server)}
    with contextlib.ExitStack() as closing:
        while any(len(theirs) < of_each for theirs in by_owner.values()):
            connection = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=60)
            closing.callback(connection.close)
            assert exchange(connection, "/health/live")[0] == 200
            theirs = by_owner[owner(server, connection)]
            if len(theirs) < of_each:
                theirs.append(connection)
        yield by_owner


def test_two_front_ends_answer_as_one_server(tiny_checkpoints: Path, tmp_path: Path) -> None:
    key, root = {"Authorization": f"Bearer {KEY}"}, shutil.copytree(tiny_checkpoints, tmp_path / "c")
    with serving(root, tmp_path, **TWO, ADMIN_KEY=KEY) as server, connections(server) as by_owner:
        (one,), (two,) = by_owner.values()
        before = scrape(server)
        sent = 0
        for path, body in (
            ("/translate", TRANSLATE),
            ("/generate", LONG),
            ("/attention", {"source": TRANSLATE["q"]}),
            ("/gates", {"text": "分开"}),
        ):
            first, second = exchange(one, path, body), exchange(two, path, body)
            for answer in (first, second):
                for times in ("timing", "timing_ms"):
                    answer[1].pop(times, None)
            assert first[0] == 200
            assert first == second
            sent += 2
        for connection in (one, two):
            status, text = exchange(connection, "/generate", {**LONG, "stream": True})
            *tokens, (last, done) = events(text)
            assert (status, last) == (200, "done")
            assert (
                "".join(token["text"] for _, token in tokens)
                == done["text"]
                == exchange(one, "/generate", LONG)[1]["text"]
            )
            sent += 2
        for connection in (one, two):
            found = re.findall(
                r'^parlance:http_requests_total\{method="POST".* ([0-9.]+)$', exchange(connection, "/metrics")[1], re.M
            )
            assert sum(map(float, found)) == sent
        assert scrape(server)["front_ends",] == 2
        assert before["front_ends",] == 2
        assert exchange(one, "/models/tiny-lyrics/unload", {}, **key)[0] == 200
        assert [len(exchange(each, "/models")[1]) for each in (one, two)] == [2, 2]
        assert exchange(two, "/models/tiny-lyrics/load", {}, **key)[0] == 200
        assert [len(exchange(each, "/models")[1]) for each in (one, two)] == [3, 3]
        assert exchange(one, "/generate", LONG)[0] == 200


def test_front_ends_share_rate_limits(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, **TWO, RATE_LIMIT="4/hour") as server, connections(server) as by_owner:
        (one,), (two,) = by_owner.values()
        statuses = [exchange(each, "/translate", TRANSLATE)[0] for each in (one, two, one, two, one, two)]
        assert statuses == [200] * 4 + [429] * 2


def test_killed_front_end_takes_its_own_connections_along_and_nothing_else(slow_lyricist: Path, tmp_path: Path) -> None:
    with (
        serving(slow_lyricist, tmp_path, **TWO) as server,
        connections(server, of_each=3) as by_owner,
        ThreadPoolExecutor(6) as clients,
    ):
        (victim, lost), (survivor, kept) = by_owner.items()
        futures = {each: clients.submit(exchange, each, "/generate", SLOW) for each in (*lost, *kept)}
        wait_for(lambda: in_flight(scrape(server)) == 6)
        os.kill(victim, signal.SIGKILL)
        for each in lost:
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                futures[each].result()
        assert [futures[each].result()[0] for each in kept] == [200] * 3  # and the port has answered meanwhile
        wait_for(lambda: scrape(server)["front_ends",] == 2 and in_flight(scrape(server)) == 0)
        found = scrape(server)
        assert found["front_end_restarts_total",] == 1
        assert sum(count for labels, count in found.items() if "request_cancelled" in labels[0]) == 3
        assert victim not in front_ends(server)
        assert survivor in front_ends(server)
        with connections(server) as again:
            short = {**LONG, "max_new_tokens": 5}
            assert [exchange(each, "/generate", short)[0] for (each,) in again.values()] == [200, 200]


def test_stopped_front_end_is_replaced(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, **TWO, WORKER_HANG_TIMEOUT_S="3") as server:
        victim, survivor = front_ends(server)
        os.kill(victim, signal.SIGSTOP)
        wait_for(lambda: victim not in front_ends(server) and len(front_ends(server)) == 2)
        assert survivor in front_ends(server)
        wait_for(lambda: len(front_ends(server)) == 2)


def test_front_ends_end_with_a_killed_engine_process(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, **TWO) as server:
        processes = server.workers()
        assert len(processes) == 3
        server.process.kill()
        server.process.wait()
        wait_for(lambda: all(map(gone, processes)))


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_every_front_end(sign: int, slow_lyricist: Path, tmp_path: Path) -> None:
    with (
        serving(slow_lyricist, tmp_path, **TWO) as server,
        connections(server, of_each=2) as by_owner,
        ThreadPoolExecutor(4) as clients,
    ):
        processes = server.workers()
        futures = [clients.submit(exchange, each, "/generate", SLOW) for theirs in by_owner.values() for each in theirs]
        wait_for(lambda: in_flight(scrape(server)) == 4)
        server.process.send_signal(sign)
        assert [future.result()[0] for future in futures] == [200] * 4
        assert server.process.wait(30) == 0
        wait_for(lambda: all(map(gone, processes)))


def test_everything_but_readiness_goes_on_during_the_delay(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, **TWO, SHUTDOWN_DELAY_S="300") as server, connections(server) as by_owner:
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not ready(server))
        for (each,) in by_owner.values():
            status, answer = exchange(each, "/health/ready")
            assert (status, answer["problems"]) == (503, ["The service is shutting down."])
            assert exchange(each, "/generate", LONG)[0] == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 128 + signal.SIGTERM


def refused(folder: Path, **settings: str) -> tuple[int, str]:
    """Status and messages of a server that does not start."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | {
        f"PARLANCE_{name}": value for name, value in settings.items()
    }
    run = subprocess.run(
        [sys.executable, "-m", "app"], cwd=folder, env=environment, stderr=subprocess.PIPE, timeout=60, text=True
    )
    return run.returncode, run.stderr


def test_port_of_another_service_is_not_shared(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, **TWO) as server:
        port = server.base.rsplit(":", 1)[1]
        for count in ("1", "2"):
            status, messages = refused(tmp_path, PORT=port, FRONT_ENDS=count, CHECKPOINTS=str(tiny_checkpoints))
            assert (status, f"port {port} of 127.0.0.1 is in use" in messages) == (2, True)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert refused(tmp_path, PORT=port, FRONT_ENDS="2", CHECKPOINTS=str(tiny_checkpoints))[0] == 2


def test_service_whose_front_ends_cannot_start_ends_with_their_reason(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    settings = {"PORT": port, "CHECKPOINTS": str(tiny_checkpoints), "KEYS_FILE": "nowhere"}
    status, messages = refused(tmp_path, FRONT_ENDS="2", **settings)
    assert status == 2
    assert "The keys file nowhere cannot be read" in messages
    assert "Traceback" not in messages
