"""Start the server over a folder of models and ask one of them over HTTP, as a user would."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def serve_and_ask(
    checkpoints: Path, name: str, sentence: str, source: str, target: str
) -> tuple[str, float, list[str]]:
    """The new model's translation of a real sentence, the seconds from start to ready, and the served models."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "app.main:create_app", "--port", str(port)]
    started = time.monotonic()
    environment = {**os.environ, "PARLANCE_CHECKPOINTS": str(checkpoints)}
    server = subprocess.Popen([*command, "--log-level", "warning"], env=environment)
    base = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                ask(f"{base}/health/ready")
                break
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() - started > 60 or server.poll() is not None:
                    raise
                time.sleep(0.05)
        ready = time.monotonic() - started
        body = {"q": sentence, "source": source, "target": target, "model": name}
        translation = ask(f"{base}/translate", body)["translatedText"]
        return translation, round(ready, 2), [model["name"] for model in ask(f"{base}/models")]
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            raise
