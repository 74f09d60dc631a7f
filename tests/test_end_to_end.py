"""Files, a real server process, real HTTP: served texts equal those of `models.decoding.decoder`, and SIGTERM ends the
server."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.engine.dispatch.placement import cpu_workers
from models import checkpoint as checkpoints
from models.networks.loading import load_network
from tests.serving import Server, serving
from tests.tiny import GERMAN
from training.evaluation.model_outputs import translate


@pytest.fixture
def server(tiny_checkpoints: Path, tmp_path: Path) -> Iterator[Server]:
    with serving(tiny_checkpoints, tmp_path) as server:
        yield server


def gone(pid: int) -> bool:
    """Ended: no such process, or one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_http_answers_equal_offline_decoding_and_sigterm_ends_the_server(
    server: Server, tiny_checkpoints: Path
) -> None:
    checkpoint = checkpoints.read(tiny_checkpoints / "tiny-de-en")
    expected = translate(checkpoint, load_network(checkpoint), GERMAN, beam=4)
    with ThreadPoolExecutor(8) as clients:  # many at once, and each as if alone
        bodies = [{"q": text, "source": "de", "target": "en"} for text in GERMAN * 8]
        answers = list(clients.map(lambda body: server.ask("/translate", body), bodies))
    assert [answer["translatedText"] for answer in answers] == expected * 8
    together = server.ask("/translate", {"q": GERMAN, "source": "de", "target": "en"})
    assert together["translatedText"] == expected

    named = {"q": GERMAN[0], "source": "de", "target": "en", "model": "tiny-de-en"}
    assert server.ask("/translate", named)["translatedText"] == expected[0]
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.ask("/translate", {**named, "model": "nobody"})
    assert 400 <= refused.value.code < 500
    assert "no translator 'nobody' for de → en" in json.load(refused.value)["error"]

    (worker,) = server.workers()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    wait_for(lambda: gone(worker))


@pytest.mark.slow
def test_workers_end_with_a_killed_server(server: Server) -> None:
    (worker,) = server.workers()
    server.process.kill()
    server.process.wait()
    wait_for(lambda: gone(worker))


@pytest.mark.slow  # one process per core, and each measures its precision
def test_default_settings_give_equal_answers_on_every_device(tiny_checkpoints: Path, tmp_path: Path) -> None:
    """With the default precision and one process per core, every process gives the same answer."""
    with serving(tiny_checkpoints, tmp_path, PRECISION="auto", CPU_WORKERS="0") as server:
        end = time.monotonic() + 60
        while len({d for model in server.ask("/models") for d in model["devices"]}) < cpu_workers(0):
            assert time.monotonic() < end
            time.sleep(0.05)
        with ThreadPoolExecutor(8) as clients:
            bodies = [{"q": text, "source": "de", "target": "en"} for text in GERMAN * 8]
            results = list(clients.map(lambda body: server.ask("/translate", body)["translatedText"], bodies))
            fields = {"prompt": "分开", "seed": 7, "max_new_tokens": 20, "temperature": 1.0}
            texts = list(clients.map(lambda body: server.ask("/generate", body)["text"], [fields] * 16))
    assert results == results[: len(GERMAN)] * 8
    assert all(results)
    assert len(set(texts)) == 1
    assert len(texts[0]) == 20
