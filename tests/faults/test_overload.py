"""Real servers under more requests than they can answer, and with readers that take almost nothing."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.app.api.test_event_stream import events
from tests.faults.clients import ask, busy_gauges, connected, descriptors, read_to_end, resident_mib, send, until
from tests.serving import Server, serving
from tests.test_end_to_end import wait_for
from tests.test_scraping import scrape

pytestmark = pytest.mark.faults
SHORT = {"prompt": "分开", "max_new_tokens": 400, "seed": 5}
LONG = {"prompt": "分开", "max_new_tokens": 1000, "seed": 7, "n": 16, "stream": True}
REFUSED_BEFORE, REFUSED = 500, 2000
NOT_HANGING_S = 5.0  # far more than any step, far less than the slow reader's minutes


@contextlib.contextmanager
def slow_reader(server: Server) -> Iterator[tuple[http.client.HTTPResponse, list[int]]]:
    """Takes a byte a second of a long stream until it is left; then it may read on. The list: the bytes it took."""
    host, port = server.base.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.sock = socket.socket()  # with a buffer of a few events
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.sock.settimeout(60)
    connection.sock.connect((host, int(port)))
    taken, enough = list[int](), threading.Event()
    with contextlib.closing(connection):
        send(connection, LONG)
        answer = connection.getresponse()

        def read_slowly() -> None:
            while not enough.wait(1):
                taken.extend(answer.read(1))

        reading = threading.Thread(target=read_slowly)
        reading.start()
        try:
            yield answer, taken
        finally:
            enough.set()
            reading.join()
            rest = answer.read()
            *tokens, (name, done) = events((bytes(taken) + rest).decode())
            assert name == "done"
            for index, alternative in enumerate([done, *done["alternatives"]]):
                assert "".join(token["text"] for _, token in tokens if token["index"] == index) == alternative["text"]


def token_events(server: Server) -> tuple[int, float, str]:
    """Of one stream: how many came, the largest gap between two in seconds, and the text."""
    with connected(server) as connection:
        send(connection, {**SHORT, "stream": True})
        answer = connection.getresponse()
        times, count = [time.monotonic()], 0
        while line := answer.readline():
            count += line == b"event: token\n"
            times.append(time.monotonic())
            if line == b"event: done\n":
                text = json.loads(answer.readline().removeprefix(b"data: "))["text"]
    return count, max(b - a for a, b in itertools.pairwise(times)), text


def test_slow_reader_delays_no_other_request(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, STREAM_INTERVAL_MS="0") as server, ThreadPoolExecutor(4) as clients:
        right = ask(server, SHORT).text
        before = [found for _ in range(6) for found in clients.map(token_events, [server] * 4)]
        with slow_reader(server) as (_, taken):
            beside = [found for _ in range(6) for found in clients.map(token_events, [server] * 4)]
            until(lambda samples: not busy_gauges(samples), server)  # it holds no slot: all of its texts are written
            after = [found for _ in range(6) for found in clients.map(token_events, [server] * 4)]
            assert len(taken) < 200  # all this while it was far from its end
        for name, results in (("before", before), ("beside", beside), ("after", after)):
            events_, gaps = statistics.median(f[0] for f in results), statistics.median(f[1] for f in results)
            print(f"{name} a slow reader: {events_} token events a stream, largest gap {1000 * gaps:.1f} ms (medians)")
            assert [text for *_, text in results] == [right] * 24
            assert all(count > 1 for count, *_ in results)  # it was written while it was sent
            assert max(gap for _, gap, _ in results) < NOT_HANGING_S


def test_fivefold_overload_is_refused_quickly_and_leaks_nothing(tiny_checkpoints: Path, tmp_path: Path) -> None:
    request = {**SHORT, "max_new_tokens": 1000}
    with (
        serving(tiny_checkpoints, tmp_path, MAX_INFLIGHT_REQUESTS="8") as server,
        ThreadPoolExecutor(40) as clients,
    ):
        right = ask(server, request).text
        (worker,) = server.workers()
        pids, sizes, waits, answered = (
            (server.process.pid, worker),
            list[list[float]](),
            list[float](),
            list[str | None](),
        )
        stop, open_before = threading.Event(), [descriptors(pid) for pid in pids]

        def flood(number: int) -> None:
            with connected(server) as connection:
                while not stop.is_set():
                    sent = time.monotonic()
                    send(connection, {**request, "stream": number % 2 == 0})
                    end = read_to_end(connection)
                    if end.status == 200:
                        answered.append(end.text)
                        continue
                    assert (end.status, end.body["code"]) == (429, "overloaded")
                    assert end.retry_after_s is not None
                    assert 1 <= end.retry_after_s <= 60
                    waits.append(end.at - sent)
                    stop.wait(0.1)

        flooding = [clients.submit(flood, number) for number in range(40)]
        for count in (REFUSED_BEFORE, REFUSED_BEFORE + REFUSED):
            while len(waits) < count and not any(future.done() for future in flooding):
                time.sleep(0.05)
            sizes.append([resident_mib(pid) for pid in pids])
        stop.set()
        for future in flooding:
            future.result(60)
        growth = [after - before for before, after in zip(*sizes, strict=True)]
        quickest = statistics.quantiles(waits[REFUSED_BEFORE:], n=100)
        print(
            f"{len(waits)} refusals: p50 {1000 * quickest[49]:.1f} ms, p99 {1000 * quickest[98]:.1f} ms, as 40 threads"
            f" of one client see it; {len(answered)} answers; memory of the server {growth[0]:+.1f} MiB, of its"
            f" device process {growth[1]:+.1f} MiB"
        )
        assert answered == [right] * len(answered)
        assert len(answered) > 8
        assert all(mib < 8 for mib in growth)
        assert quickest[49] < 1.0  # the promise is 50 ms, of a machine that does not run its clients too
        result = until(lambda samples: not busy_gauges(samples), server)
        refused = [
            count
            for (name, *labels), count in result.items()
            if name == "request_refused_total"
            and any(label in ("overloaded_requests", "overloaded_client") for label in labels)
        ]
        assert sum(refused) == len(waits)
        assert scrape(server)["request_success_total", "cpu", "length", "tiny-lyrics"] == len(answered) + 1
        # a connection closes some time after its client has left
        wait_for(lambda: all(descriptors(pid) <= count for pid, count in zip(pids, open_before, strict=True)))
        assert ask(server, request).text == right
