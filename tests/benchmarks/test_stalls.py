"""The cases of `benchmarks.stalls`: every endpoint has one, and what a server refuses is no measure."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import stalls
from benchmarks.stall_cases import CASES, Ask, Case
from benchmarks.stalls import measured

OPENAPI = Path(__file__).parents[1] / "golden" / "openapi.json"
# Endpoints without a worst request here: the probe itself asks for the first one, and the others fetch models from the
# network or change those that are served.
NOT_MEASURED = (
    "/health/live",
    "/models/import",
    "/models/imports/{number}",
    "/models/{name}/load",
    "/models/{name}/reload",
    "/models/{name}/unload",
)


def test_every_endpoint_has_a_case() -> None:
    asked = {case.path.partition("?")[0] for case in CASES}
    paths = [path for path in json.loads(OPENAPI.read_text())["paths"] if path not in NOT_MEASURED]
    patterns = {path: re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))) for path in paths}
    assert [path for path, pattern in patterns.items() if not any(map(pattern.fullmatch, asked))] == []


def test_names_of_cases_are_distinct() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@contextmanager
def answering(statuses: dict[str, int]) -> Iterator[Any]:
    """A stand-in for `Server`, whose paths have these statuses; others have 200."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(statuses.get(self.path, 200))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Not to the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield cast(Any, SimpleNamespace(port=server.server_port))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("status", "expected"), [(200, True), (400, False), (429, False)])
def test_refused_case_is_a_mistake_of_the_benchmark(
    status: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalls, "AFTER_S", 0.05)
    with answering({"/worst": status}) as server:
        row = measured(server, "worst", Case("worst", "/worst", {}), Ask(server.port, {}), 5.0)
    assert (row["status"], row["expected"]) == (status, expected)
    assert row["waits"] > 0
