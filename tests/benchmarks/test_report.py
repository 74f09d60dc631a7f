"""How a benchmark ends."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.readme import ROOT

PROGRAM = """
import contextlib, time
from benchmarks.report import argument_parser

@contextlib.contextmanager
def server():
    try:
        yield
    finally:
        print("ended", flush=True)

argument_parser("x", None)
with server():
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_benchmark_that_is_terminated_ends_its_servers() -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "ended\n"
        assert process.wait() == 128 + signal.SIGTERM
