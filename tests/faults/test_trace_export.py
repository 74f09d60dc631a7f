"""A real server that sends traces: it starts, its device processes are started anew, and the spans arrive."""

from __future__ import annotations

import gzip
import http.server
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.serving import serving

pytestmark = pytest.mark.faults


@contextmanager
def collector() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the names of the spans that it got."""
    names: list[str] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            sent = ExportTraceServiceRequest.FromString(body)
            names.extend(span.name for each in sent.resource_spans for one in each.scope_spans for span in one.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Silent."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", names
    finally:
        server.shutdown()
        server.server_close()


def until(true: Callable[[], bool], limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_server_sends_traces(tiny_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")  # milliseconds
    # a device process that is forked as uvloop does it never gets past OpenTelemetry, and its server never gets ready
    with collector() as (endpoint, names), serving(tiny_checkpoints, tmp_path, OTLP_ENDPOINT=endpoint) as server:
        (worker,) = server.workers()
        os.kill(worker, signal.SIGKILL)
        until(lambda: server.workers() not in ([], [worker]))
        until(lambda: ready(server.base))
        server.ask("/translate", {"q": "a b", "source": "de", "target": "en"})
        until(lambda: "POST /translate" in names)


def ready(base: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base}/health/ready", timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False
