"""Two replicas on two Ray nodes: what they share, and what a client sees while one of them ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from app.access import key_file
from tests.app.access.redis_server import redis_server
from tests.app.api.keyed_client import ADMIN, OTHER, USE, keys_file
from tests.readme import ROOT
from tests.tiny import write_lyricist, write_translator

pytestmark = pytest.mark.ray
TEXT = {"q": "ich möchte ein bier", "source": "de", "target": "en"}
METERED = "plk_" + "m" * 43
START_S = 300  # Ray starts a dozen processes, each of which imports it


@dataclass
class Answered:
    """Statuses of many requests, and the longest that one took; a stream that ends with an error
    counts as "error event", an answer that ends in its middle as "cut"."""

    statuses: Counter[Any] = field(default_factory=Counter)
    longest_s: float = 0.0


class Replicas:
    def __init__(self, process: subprocess.Popen[str], port: int, checkpoints: Path) -> None:
        self.process, self.base, self.checkpoints = process, f"http://127.0.0.1:{port}", checkpoints

    def tell(self, command: str, argument: Any = None) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, argument]) + "\n")
        self.process.stdin.flush()
        return self.heard()

    def heard(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:  # Ray prints there too
            with suppress(json.JSONDecodeError):
                return json.loads(line)
        raise AssertionError("the cluster ended")

    def open(self, path: str, body: Any = None, key: str = USE, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        return urllib.request.urlopen(request, timeout=60)

    def statuses(self, path: str, body: Any = None, key: str = USE) -> Counter[int]:
        """Of 20 requests, which both replicas get some of."""
        statuses = Counter[int]()
        for _ in range(20):
            try:
                with self.open(path, body, key) as answer:
                    statuses[answer.status] += 1
            except urllib.error.HTTPError as error:
                statuses[error.code] += 1
        return statuses

    def ask(self, path: str, body: Any = None, key: str = USE) -> Any:
        with self.open(path, body, key) as answer:
            return json.load(answer)

    def refused(self, path: str, body: Any, key: str = USE) -> tuple[int, Any]:
        with pytest.raises(urllib.error.HTTPError) as refusal:
            self.open(path, body, key)
        return refusal.value.code, json.load(refusal.value)

    def processes(self) -> list[int]:
        """Of the replicas, the older first."""
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if folder.name.isdigit() and b"ServeReplica:parlance" in (folder / "cmdline").read_bytes():
                    found.append((folder.stat().st_mtime, int(folder.name)))
        return [pid for _, pid in sorted(found)]

    def run(self, count: int) -> bool:
        """Waits until so many replicas run and no other is started or ended."""
        end = time.monotonic() + START_S
        while self.tell("status") != {"RUNNING": count}:
            assert time.monotonic() < end, self.tell("status")
            time.sleep(0.5)
        return True


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    checkpoints = folder / "checkpoints"
    write_translator(checkpoints / "tiny-de-en", "de", "en")
    write_lyricist(checkpoints / "tiny-lyrics")
    (folder / "redis").mkdir()
    with socket.socket() as probe, redis_server(folder / "redis") as redis:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        keys = keys_file(folder, rate_limit="12/day")
        metered = {"name": "metered", "sha256": key_file.key_digest(METERED).hex(), "quota": "100/day"}
        key_file.write_key_lines(keys, [*map(json.loads, keys.read_text().splitlines()), metered])
        settings = {
            "CHECKPOINTS": checkpoints,
            "DATA": folder / "data",
            "KEYS_FILE": keys,
            "REDIS_URL": redis.url,
            "PRECISION": "fp32",
            "CPU_WORKERS": 1,
            "CPU_THREADS": 1,
        }
        environment = {**os.environ, **{f"PARLANCE_{name}": str(value) for name, value in settings.items()}}
        environment |= {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        environment["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"] = "app.ray_proxy:middlewares"
        command = [sys.executable, "-m", "tests.replicas.ray_cluster", str(port)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )
        found = Replicas(process, port, checkpoints)
        try:
            assert found.heard() == "ready"
            yield found
        finally:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            process.wait()
            process.stdout.close()


def test_every_kind_of_answer_comes_through_ray(replicas: Replicas) -> None:
    with replicas.open("/translate", TEXT) as answer:
        assert json.load(answer)["translatedText"]
        assert len(answer.headers.get_all("X-Request-Id")) == 1
    with replicas.open("/generate", {"prompt": "雨", "stream": True, "max_new_tokens": 40}) as stream:
        events = stream.read().decode().split("\n\n")
        assert events[0].startswith("event: token\n")
        assert events[-2].startswith("event: done\n")
    with replicas.open("/") as page:
        assert b"<!doctype html>" in page.read(200).lower()
    assert replicas.ask("/health/ready")["ready"] is True
    status, refusal = replicas.refused("/translate", {"q": "bier", "source": "de"})
    assert (status, refusal["code"], refusal["field"]) == (400, "invalid_request", "target")


def test_key_and_limits_hold_across_replicas(replicas: Replicas) -> None:
    status, refusal = replicas.refused("/translate", TEXT, "plk_" + "x" * 43)
    assert status in (400, 401, 403), refusal
    assert replicas.statuses("/translate", TEXT, OTHER) == {200: 12, 429: 8}


def test_quotas_hold_across_replicas(replicas: Replicas) -> None:
    characters = len(TEXT["q"])
    fit = 100 // characters
    assert replicas.statuses("/translate", TEXT, METERED) == {200: fit, 429: 20 - fit}
    usages = {replicas.ask("/v2/usage", key=METERED)["character_count"] for _ in range(20)}
    assert usages == {fit * characters}


def test_glossaries_hold_across_replicas(replicas: Replicas) -> None:
    entries = {"entries": "bier\tale", "entries_format": "tsv"}
    made = replicas.ask("/v2/glossaries", {"name": "pub", "source_lang": "DE", "target_lang": "EN", **entries})
    path = f"/v2/glossaries/{made['glossary_id']}"
    assert replicas.statuses(path) == {200: 20}
    text = {"text": [TEXT["q"]], "source_lang": "DE", "target_lang": "EN", "glossary_id": made["glossary_id"]}
    assert replicas.statuses("/v2/translate", text) == {200: 20}
    assert replicas.statuses(path, key=METERED) == {404: 20}  # of another key
    replicas.open(path, method="DELETE").close()
    assert replicas.statuses(path) == {404: 20}


def test_any_replica_tells_of_a_document_and_returns_it(replicas: Replicas) -> None:
    boundary = "letter"
    parts = {"source_lang": "DE", "target_lang": "EN"}
    form = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in parts.items()
    )
    form += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="brief.txt"\r\n\r\n'
    form += f"ein bier\r\n--{boundary}--\r\n"
    request = urllib.request.Request(
        f"{replicas.base}/v2/document",
        form.encode(),
        {"Content-Type": f"multipart/form-data; boundary={boundary}", "Authorization": f"DeepL-Auth-Key {USE}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        made = json.load(answer)
    path, key = f"/v2/document/{made['document_id']}", {"document_key": made["document_key"]}
    while (state := replicas.ask(path, key)["status"]) in ("queued", "translating"):
        time.sleep(0.1)
    assert state == "done"
    states = [replicas.ask(path, key)["status"] for _ in range(20)]
    assert states == ["done"] * 20
    files = set()
    for _ in range(20):
        with replicas.open(path + "/result", key) as answer:
            files.add(answer.read())
    assert len(files) == 1


def test_user_config_changes_every_replica_and_the_api_none(replicas: Replicas) -> None:
    def served() -> set[tuple[str, ...]]:
        """What each of the replicas serves, as 20 requests find it."""
        return {tuple(f"{model['name']} {model['version']}" for model in replicas.ask("/models")) for _ in range(20)}

    def come_to(*models: str) -> bool:
        """Ray tells its replicas of a new configuration soon after it has taken it."""
        end = time.monotonic() + 60
        while served() != {models}:
            assert time.monotonic() < end, served()
        return True

    status, refusal = replicas.refused("/models/tiny-de-en/reload", {}, ADMIN)
    assert (status, "user_config of the deployment" in refusal["error"]) == (403, True)
    before = replicas.processes()
    assert replicas.tell("user_config", {"models": {"tiny-de-en": 1, "tiny-lyrics": 1}}) == "done"
    assert come_to("tiny-de-en 1", "tiny-lyrics 1")
    assert replicas.tell("user_config", {"models": {"tiny-de-en": 2, "tiny-lyrics": 1}}) == "done"
    assert come_to("tiny-de-en 2", "tiny-lyrics 1")
    assert replicas.tell("user_config", {"models": {"tiny-de-en": 2}}) == "done"
    assert come_to("tiny-de-en 2")
    assert replicas.tell("user_config", {"models": {"tiny-de-en": 2, "tiny-lyrics": 2}}) == "done"
    assert come_to("tiny-de-en 2", "tiny-lyrics 2")
    assert replicas.processes() == before  # no replica was started anew for it


class Load:
    """Clients that translate and stream without a pause."""

    def __init__(self, replicas: Replicas, clients: int = 6) -> None:
        self.replicas, self.answered = replicas, Answered()
        self._ends, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number % 2 == 0,)) for number in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        time.sleep(2)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join(90)
        assert not any(thread.is_alive() for thread in self._threads), "a request hangs"

    def _run(self, streams: bool) -> None:
        while not self._ends.is_set():
            began = time.monotonic()
            status = self._stream() if streams else self._translation()
            with self._lock:
                self.answered.statuses[status] += 1
                self.answered.longest_s = max(self.answered.longest_s, time.monotonic() - began)
            if status != 200:
                time.sleep(0.05)

    def _translation(self) -> Any:
        try:
            with self.replicas.open("/translate", TEXT) as answer:
                answer.read()
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, HTTPException):
            return "cut"

    def _stream(self) -> Any:
        body = {"prompt": "雨", "stream": True, "max_new_tokens": 200}
        try:
            with self.replicas.open("/generate", body) as stream:
                last = stream.read().rstrip().split(b"\n\n")[-1]
                return 200 if last.startswith(b"event: done") else "error event" if b"event: error" in last else "cut"
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, HTTPException):
            return "cut"


def check(answered: Answered) -> None:
    """Nothing hung or broke off, the lost replica's requests were told of it, and the other went on."""
    print(answered)
    assert answered.statuses[200] > 20, answered
    assert set(answered.statuses) <= {200, 503, "error event"}, answered
    lost = sum(count for status, count in answered.statuses.items() if status != 200)
    assert lost < answered.statuses[200], answered
    assert answered.longest_s < 60, answered


def test_replica_that_is_killed_under_load(replicas: Replicas) -> None:
    assert replicas.run(2)
    with Load(replicas) as load:
        victim = replicas.processes()[0]
        os.kill(victim, signal.SIGKILL)
        time.sleep(5)
        assert replicas.run(2)
        time.sleep(2)
    check(load.answered)
    assert victim not in replicas.processes()


def test_node_that_is_killed_under_load(replicas: Replicas) -> None:
    assert replicas.run(2)
    with Load(replicas) as load:
        replicas.tell("remove_node")
        time.sleep(10)
        assert replicas.ask("/translate", TEXT)
        replicas.tell("add_node")
        assert replicas.run(2)
        time.sleep(2)
    check(load.answered)


def test_replicas_follow_the_sequences_and_not_the_requests(replicas: Replicas) -> None:
    """Three clients at a time are no work for two replicas, but their 48 sequences are."""
    scaling = {"min_replicas": 1, "target_ongoing_requests": 8, "upscale_delay_s": 1, "downscale_delay_s": 5}
    replicas.tell("arguments", scaling)
    assert replicas.run(1)
    ends = threading.Event()

    def ask_on() -> None:
        while not ends.is_set():
            with suppress(urllib.error.HTTPError):
                replicas.ask("/generate", {"prompt": "雨", "n": 16, "max_new_tokens": 1000})

    clients = [threading.Thread(target=ask_on) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        assert replicas.run(2)
    finally:
        ends.set()
        for client in clients:
            client.join(90)
    assert replicas.run(1)
