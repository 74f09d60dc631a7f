"""Real sentences end to end: train a translator, score it once, serve it beside the demo models, ask it over HTTP.

python -m benchmarks.multi30k --data FOLDER [--source de] [--target en] [--minutes 15] [--checkpoints DIR] [--json]

FOLDER holds Multi30k: train.LANG.gz, val.LANG.gz and test_2016_flickr.LANG.gz (not in this repository: its licence
is for non-commercial use). The test set is read once, after training has ended. DIR (default: a temporary folder)
is what is served: the demo models in it, if there are any, answer beside the new one, and a model that an earlier run
left there is not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.report import finish, goal
from models.checkpoint import is_checkpoint, read

GOAL_BLEU = 28.0
SENTENCES = {"de": "Ein kleiner Hund rennt über die Wiese.", "en": "A small dog is running across the meadow."}


def train(data: Path, source: str, target: str, minutes: float, out: Path) -> dict[str, Any]:
    """The scores that the training command prints as its last line."""

    def pairs(part: str) -> str:
        return f"{data}/{part}.{source}.gz,{data}/{part}.{target}.gz"

    command = [sys.executable, "-m", "training", "translator", "--source", source, "--target", target]
    command += ["--train", pairs("train"), "--valid", pairs("val"), "--test", pairs("test_2016_flickr")]
    command += ["--recipe", "tiny", "--max-minutes", f"{minutes:g}", "--out", str(out)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    scores: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return scores


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def serve_and_ask(checkpoints: Path, name: str, source: str, target: str) -> tuple[str, float, list[str]]:
    """The translation of a real sentence by the new model, the seconds from start to ready, and what is served."""
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
        body = {"q": SENTENCES[source], "source": source, "target": target, "model": name}
        translation = ask(f"{base}/translate", body)["translatedText"]
        return translation, ready, [model["name"] for model in ask(f"{base}/models")]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--source", choices=["de", "en"], default="de")
    parser.add_argument("--target", choices=["de", "en"], default="en")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--checkpoints", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    source, target = arguments.source, arguments.target
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.checkpoints or Path(temporary)
        name = f"multi30k-{source}-{target}"
        if is_checkpoint(root / name):  # an earlier run's: its scores stand in it
            scores = dict(read(root / name).config.scores)
        else:
            scores = train(arguments.data, source, target, arguments.minutes, root / name)
        translation, ready, served = serve_and_ask(root, name, source, target)
    (test,) = [values for part, values in scores.items() if "test_2016_flickr" in part]
    rows = [{"part": part, **values} for part, values in scores.items()]
    rows.append(
        {"sentence": SENTENCES[source], "translation": translation, "ready_s": round(ready, 2), "served": served}
    )
    aim = goal(f"BLEU {source}→{target}, {arguments.minutes:g} minutes", test["bleu"], GOAL_BLEU, "BLEU", "higher")
    finish("multi30k", rows, [aim], as_json=arguments.json)


if __name__ == "__main__":
    main()
