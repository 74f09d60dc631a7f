"""From an installed clone to the first answer: what a newcomer waits for.

python -m benchmarks.first_answer [--demo] [--times 3] [--line MB_PER_S] [--results FILE] [--json]

The command is `parlance serve de-en`, as `make serve MODEL=de-en` runs it, with an empty folder of checkpoints, an
empty cache of the Hub and no compiled kernels. A stand-in for the Hub on loopback has opus-mt-de-en in its real size,
74 million random weights (benchmarks/marian_folder.py). The times add up: import_s is downloading, checking and
converting; start_s until the server accepts connections, load_s until it is ready (compiling kernels, checksums, int8,
measuring precisions), answer_s the first translation. --line limits the download. line_needed is the slowest line, in
MB/s, on which the goal is still met. --demo measures `parlance serve` alone instead, which trains the demo models.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.marian_folder import write_marian_folder
from benchmarks.report import finish, goal
from tests.stand_in_hub import stand_in_hub
from training.demo import phrasebook

MOST_S, MOST_DEMO_S = 90, 240
HANG_S = 1800
NAME = "Helsinki-NLP/opus-mt-de-en"
CARD = "---\nlicense: cc-by-4.0\n---\n\n# opus-mt-de-en\n"
SENTENCES = 2000  # of the phrasebook, for the tokenizers
MILESTONES = {"import_s": "Parlance starts on", "start_s": "Uvicorn running on"}


def write_repository(folder: Path) -> None:
    pairs = phrasebook.pairs("de", "en", held_out=False)[:SENTENCES]
    sources, targets = zip(*pairs, strict=True)
    write_marian_folder(folder, sources, targets)
    (folder / "README.md").write_text(CARD, encoding="utf-8")


def run(models: list[str], folder: Path, endpoint: str) -> dict[str, float]:
    """The seconds of each phase, in an empty folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PARLANCE_", "HF_"))}
    settings = {"PORT": str(port), "CHECKPOINTS": str(folder / "checkpoints"), "DATA": str(folder / "data")}
    environment = {
        **inherited,
        **{f"PARLANCE_{name}": value for name, value in settings.items()},
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(folder / "hub"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    began, log = time.monotonic(), folder / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "parlance", "serve", *models]
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    times = {}
    try:
        for phase, text in MILESTONES.items():
            times[phase] = _wait(server, log, lambda text=text: text in log.read_text(errors="replace"))  # type: ignore[misc]
        times["load_s"] = _wait(server, log, lambda: _answers(port, "/health/ready"))
        body = {"q": "Guten Morgen, ich möchte ein Bier.", "source": "de", "target": "en"}
        times["answer_s"] = _wait(server, log, lambda: _answers(port, "/translate", body))
        times["total_s"] = time.monotonic() - began
        return {phase: round(seconds, 2) for phase, seconds in times.items()}
    finally:
        server.terminate()
        server.wait()


def _wait(server: subprocess.Popen[bytes], log: Path, reached: Callable[[], bool]) -> float:
    """Seconds until it is reached. RuntimeError if the server ends before."""
    began = time.monotonic()
    while not reached():
        if server.poll() is not None or time.monotonic() - began > HANG_S:
            raise RuntimeError(log.read_text(errors="replace")[-2000:])
        time.sleep(0.02)
    return time.monotonic() - began


def _answers(port: int, path: str, body: dict[str, str] | None = None) -> bool:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status == 200
    except OSError:
        return False


def measure(times: int, line: float, demo: bool) -> list[dict[str, Any]]:
    """line: bytes per second of the download; 0 does not limit it."""
    with tempfile.TemporaryDirectory() as root, stand_in_hub() as hub:
        size = 0
        if not demo:
            write_repository(Path(root) / "repository")
            hub.add(NAME, Path(root) / "repository").info(blobs=True)  # its checksums are made before the clock runs
            hub.rate = line
            size = sum(file.stat().st_size for file in (Path(root) / "repository").iterdir())
        rows = []
        for _ in range(times):
            with tempfile.TemporaryDirectory(dir=root) as folder:
                rows.append(run([] if demo else ["de-en"], Path(folder), hub.address))
    slowest = max(rows, key=lambda row: row["total_s"])
    if demo:
        return [{"model": "the demo models", "runs": times, **slowest}, *rows]
    spare = MOST_S - (slowest["total_s"] - (size / line if line else 0))
    shown = {"model": NAME, "runs": times, "download_mb": round(size / 1e6, 1), "line_mb_per_s": line / 1e6 or None}
    return [{**shown, **slowest, "line_needed_mb_per_s": round(size / 1e6 / spare, 1)}, *rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--line", type=float, default=0, metavar="MB_PER_S")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = measure(given.times, given.line * 1e6, given.demo)
    what, most_s = ("with the demo", MOST_DEMO_S) if given.demo else ("with a model of the hub", MOST_S)
    reached = goal(f"installed to first answer {what}, slowest run", rows[0]["total_s"], most_s, "s", "lower")
    finish("first_answer", rows, [reached], as_json=given.json, out=given.results)


if __name__ == "__main__":
    main()
