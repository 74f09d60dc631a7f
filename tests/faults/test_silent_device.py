"""/metrics while a device process says nothing, and once it is dead."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from app.engine.metrics import STALE_S
from tests.serving import Server, serving
from tests.test_end_to_end import wait_for

pytestmark = pytest.mark.faults


def gauge(server: Server, name: str) -> float | None:
    """Of the one device, summed over its models; None where it is left out."""
    families = {family.name: family.samples for family in parse(server.page("/metrics").decode())}
    samples = families[f"parlance:{name}"]
    return sum(sample.value for sample in samples) if samples else None


def age_s(server: Server) -> float:
    age = gauge(server, "device_report_age_seconds")
    return 0.0 if age is None else age


def test_gauges_of_a_stopped_process_go_and_come_back(tiny_checkpoints: Path, tmp_path: Path) -> None:
    with serving(tiny_checkpoints, tmp_path, WORKER_HANG_TIMEOUT_S="300") as server:
        (worker,) = server.workers()
        wait_for(lambda: gauge(server, "slots"))
        os.kill(worker, signal.SIGSTOP)
        wait_for(lambda: age_s(server) > STALE_S)
        assert gauge(server, "slots") is gauge(server, "kv_cache_usage_perc") is None
        assert gauge(server, "device_ready") == 1  # not ended yet: the front end takes requests for it
        os.kill(worker, signal.SIGCONT)
        wait_for(lambda: gauge(server, "slots"))
        assert age_s(server) < STALE_S
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: gauge(server, "device_deaths") == 1)
        wait_for(lambda: gauge(server, "slots"))  # of its successor
