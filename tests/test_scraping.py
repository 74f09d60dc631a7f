"""A real server is used and then scraped as Prometheus does."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from models import checkpoint as checkpoints
from tests.serving import Server, serving
from tests.tiny import GERMAN

Samples = dict[tuple[str, ...], float]


def scrape(server: Server) -> Samples:
    """(name, values of its labels in order of their names) -> value."""
    with urllib.request.urlopen(f"{server.base}/metrics", timeout=60) as answer:
        families = parse(answer.read().decode())
    samples = [sample for family in families for sample in family.samples]
    return {(s.name.removeprefix("parlance:"), *(v for _, v in sorted(s.labels.items()))): s.value for s in samples}


@pytest.mark.slow
def test_scraped_counts_equal_the_requests(tiny_checkpoints: Path, tmp_path: Path) -> None:
    of = ("cpu", "tiny-de-en")
    with serving(tiny_checkpoints, tmp_path) as server:
        before = scrape(server)
        assert before["request_success_total", "cpu", "stop", "tiny-de-en"] == 0  # there before the first request
        assert before["device_ready", "cpu"] == 1
        assert before["models_loaded", "cpu"] == 3
        server.ask("/translate", {"q": GERMAN, "source": "de", "target": "en"})
        server.ask("/translate", {"q": GERMAN[0], "source": "de", "target": "en"})
        with pytest.raises(urllib.error.HTTPError):
            server.ask("/attention", {"source": "ich " * 40, "model": "tiny-de-en"})
        result = scrape(server)
        asked = len(GERMAN) + 1
        ends = [result["request_success_total", "cpu", reason, "tiny-de-en"] for reason in ("stop", "length")]
        assert sum(ends) == asked
        checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
        read = sum(len(checkpoint.source_ids(text)) for text in [*GERMAN, GERMAN[0]])
        assert result["prompt_tokens_total", *of] == read
        assert result["generation_tokens_total", *of] > 0
        assert result["e2e_request_latency_seconds_count", *of] == asked
        assert 0 < result["e2e_request_latency_seconds_sum", *of] < 60 * asked
        assert result["request_refused_total", "text_too_long"] == 1
        assert result["http_requests_total", "POST", "/translate", "200"] == 2
        assert result["http_requests_total", "POST", "/attention", "422"] == 1
        assert result["num_requests_running", *of] == result["num_requests_waiting", *of] == 0
        assert result["e2e_request_latency_seconds_count", "cpu", "tiny-en-es"] == 0
        device_said(server, asked)
        leave_midway(server)


def device_said(server: Server, asked: int) -> None:
    """What comes with the device's next beats: one may fall between two requests."""
    of = ("cpu", "tiny-de-en")
    result = wait_for(
        server, lambda samples: samples["prefill_tokens_total", *of] >= samples["prompt_tokens_total", *of]
    )
    assert result["step_duration_seconds_count", *of] > 0
    assert result["request_queue_time_seconds_count", *of] == asked
    assert result["time_to_first_token_seconds_count", *of] == asked
    assert result["step_rows_total", *of] >= result["step_duration_seconds_count", *of]
    assert (result["slots", *of], result["slots_used", *of], result["kv_cache_usage_perc", *of]) == (64, 0, 0)


def leave_midway(server: Server) -> None:
    """Of a client that goes away nothing is left in work."""
    of, sequences = ("cpu", "tiny-lyrics"), 16
    connection = http.client.HTTPConnection(server.base.removeprefix("http://"), timeout=60)
    body = json.dumps({"prompt": "分开", "max_new_tokens": 1024, "n": sequences, "seed": 1})
    connection.request("POST", "/generate", body, {"Content-Type": "application/json"})
    wait_for(
        server, lambda samples: samples["num_requests_running", *of] + samples["num_requests_waiting", *of] == sequences
    )
    connection.close()
    left = ("request_cancelled_total", "cpu", "tiny-lyrics", "disconnect")

    def finished(samples: Samples) -> float:  # on a busy machine some end before the server sees that the client left
        return sum(value for key, value in samples.items() if key[0] == "request_success_total" and key[3] == of[1])

    result = wait_for(server, lambda samples: samples[left] + finished(samples) == sequences)
    assert result[left] > 0
    assert result["num_requests_running", *of] == result["num_requests_waiting", *of] == 0


def wait_for(server: Server, condition: Callable[[Samples], bool]) -> Samples:
    end = time.monotonic() + 20
    while not condition(result := scrape(server)):
        assert time.monotonic() < end, result
    return result
