"""The real server over loopback against the same network behind plain FastAPI with dynamic batching and behind
LitServe; what HTTP costs; lyricist streams; and whether answers under load are the answers alone.

python -m benchmarks.serving [--data FOLDER] [--checkpoint FOLDER] [--quick] [--json]

--data FOLDER holds Multi30k's .gz files (not in this repository); without it the phrasebook's sentences are asked.
--checkpoint FOLDER is a de→en translator; without it one is trained for --train-minutes. All servers get the same
beam and the same number of threads. Arrivals are an open-loop Poisson process; see `benchmarks.load`. The whole takes
about a quarter of an hour; --quick is a smoke run of less than a minute whose figures mean nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import serving_sentences as corpora
from benchmarks.promises import goals
from benchmarks.report import finish
from benchmarks.served import prepare
from benchmarks.servers import knows
from benchmarks.serving_race import PEERS, Plan, Race

QUICK = Plan(
    scanned=False,
    duration_s=1.5,
    seeds=(1,),
    of_capacity=(0.7,),
    paragraphs=15,
    repeats=1,
    overhead=5,
    sentences=40,
    streams=8,
    stream_tokens=30,
    cancelled=4,
    mixed=30,
    mixed_narrow=10,
)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="Multi30k's folder")
    parser.add_argument("--checkpoint", type=Path, help="a de→en translator")
    parser.add_argument("--train-minutes", type=float, help="without --checkpoint (default: 2, or 0.1 with --quick)")
    parser.add_argument("--beam", type=int, default=4, help="of all servers; 1 is greedy (default: 4, as the service)")
    parser.add_argument("--threads", type=int, default=1, help="of each server's network (default: 1)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of our server")
    parser.add_argument("--only", choices=Race.PARTS, action="append", help="one part of the run; may be repeated")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def settings(given: list[str]) -> dict[str, str]:
    """The server's defaults, its precision among them, unless overridden; the peers compute in fp32."""
    chosen: dict[str, str] = {}
    for each in given:
        name, _, value = each.partition("=")
        name = name.lower().removeprefix("parlance_")
        if not knows(name):
            raise SystemExit(f"--set {each}: the server has no such setting.")
        chosen[name] = value
    return chosen


async def measure(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    plan = QUICK if arguments.quick else Plan()
    minutes = arguments.train_minutes or (0.1 if arguments.quick else 2.0)
    sentences = corpora.multi30k(arguments.data) if arguments.data else corpora.made_up(folder)
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    served = prepare(checkpoints, arguments.checkpoint, sentences, minutes)
    race = Race(plan, served, sentences, arguments.beam, arguments.threads, settings(arguments.set))
    race.note(
        {
            "translator": served.origin,
            "sentences": f"{sentences.corpus}, {sentences.part}",
            "beam": arguments.beam,
            "threads": arguments.threads,
            "settings": race.settings,
            "without": sorted(set(PEERS) - set(race.best)),  # not installed: pip install -e '.[bench]'
            "load_before": round(os.getloadavg()[0], 2),
        }
    )
    try:
        for part in Race.PARTS:
            if arguments.only is None or part in arguments.only:
                await race.run(part)
    finally:
        race.close()
    return race.rows


def main() -> None:
    arguments = parsed()
    # `timeout` and supervisors say SIGTERM: leave by the same way as with Ctrl-C, which ends the servers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as temporary:
        try:
            rows = asyncio.run(measure(arguments, Path(temporary)))
        except OSError as error:
            sys.exit(f"{error}: --data must hold Multi30k's train, val and test_2016_flickr as .de.gz and .en.gz.")
    finish("serving", rows, goals(rows), as_json=arguments.json)


if __name__ == "__main__":
    main()
