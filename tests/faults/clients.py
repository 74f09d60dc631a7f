"""What clients see of a request to its end, and what the system shows of a process."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.app.api.test_event_stream import events
from tests.serving import Server
from tests.test_scraping import Samples, scrape

UNUSED = ("num_requests_running", "num_requests_waiting", "slots_used", "kv_cache_usage_perc")


class End(NamedTuple):
    """How a request ended. body: its answer, or the data of a stream's last event, which is named by `event`.
    at: CLOCK_MONOTONIC seconds."""

    status: int
    body: dict[str, Any]
    event: str | None
    retry_after_s: int | None
    at: float

    @property
    def may_be_tried_again(self) -> bool:
        """The server says that a retry is useful: by status and header, or in the stream that had begun."""
        if self.event == "error":
            return bool(self.body["code"] == "engine_unavailable" and "again" in self.body["error"])
        return self.status == 503 and self.retry_after_s is not None and "again" in self.body["error"]

    @property
    def text(self) -> str | None:
        """Of an answer that is whole."""
        return self.body["text"] if self.status == 200 and self.event in (None, "done") else None


@contextlib.contextmanager
def connected(server: Server) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=60)
    with contextlib.closing(connection):
        yield connection


def send(connection: http.client.HTTPConnection, body: dict[str, Any]) -> None:
    connection.request("POST", "/generate", json.dumps(body), {"Content-Type": "application/json"})


def read_to_end(connection: http.client.HTTPConnection, begun: Callable[[], Any] = lambda: None) -> End:
    """Reads to the last byte; a truncated answer raises. begun: called once the headers have arrived."""
    answer = connection.getresponse()
    begun()
    read, at = answer.read().decode(), time.monotonic()
    wait = answer.getheader("retry-after")
    wait_s = None if wait is None else int(wait)
    if not answer.getheader("content-type", "").startswith("text/event-stream"):
        return End(answer.status, json.loads(read), None, wait_s, at)
    *tokens, (name, last) = events(read)
    assert [event for event, _ in tokens] == ["token"] * len(tokens)
    if name == "done" and "alternatives" not in last:
        assert "".join(token["text"] for _, token in tokens) == last["text"]
    return End(answer.status, last, name, wait_s, at)


def ask(server: Server, body: dict[str, Any], begun: Callable[[], Any] = lambda: None) -> End:
    with connected(server) as connection:
        send(connection, body)
        return read_to_end(connection, begun)


def in_flight(found: Samples) -> float:
    return sum(v for key, v in found.items() if key[0] in ("num_requests_running", "num_requests_waiting"))


def busy_gauges(found: Samples) -> dict[tuple[str, ...], float]:
    """Every gauge that is 0 when nothing is in work, where it is not."""
    return {key: value for key, value in found.items() if key[0] in UNUSED and value}


def until(condition: Callable[[Samples], bool], server: Server) -> Samples:
    """Scrapes until the condition holds."""
    end = time.monotonic() + 20
    while not condition(result := scrape(server)):
        assert time.monotonic() < end, result
        time.sleep(0.01)
    return result


def resident_mib(pid: int) -> float:
    result = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert result is not None
    return int(result[1]) / 1024


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
