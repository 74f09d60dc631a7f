"""Whether a change has made anything slower: two checkouts of this project in turns, on the same machine.

python -m benchmarks.against --baseline FOLDER [--candidate FOLDER] [--checkpoints FOLDER] [--rounds 5]
                             [--parts decoding http training] [--training-s 20] [--json] [--results FILE]
python -m benchmarks.against --baseline . --native avx512_vnni amx

decoding: tokens per CPU second of the engine's decoder with random weights (`benchmarks.shapes`), a process of one
thread for each checkout. http: a server of each checkout with the demo models: the latency of one client, with an
answer of one token (what is left is HTTP, the front end and the way to the device process) and of a whole one,
sentences per second of 16 clients, and the CPU time of all the server's processes for a request of each kind, which
does not depend on what else the machine does. training: tokens per CPU second of a small translator and a GRU lyricist,
from one line of the run's metrics to its last. The checkouts take turns, and the one that begins changes from round to
round; a row has the medians, and the median and the quartiles of the ratios within a round (of rates candidate over
baseline, of times baseline over candidate: above 1 is faster). --native: decoding alone, with these kernels
(`PARLANCE_NATIVE`) in the baseline and in the candidate, which may be one checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import wire
from benchmarks.load import closed_loop
from benchmarks.recorded_requests import SENTENCES
from benchmarks.report import finish, goal
from benchmarks.servers import ROOT, Server, ours
from models.backends.native.build import CHOICE, loaded, name_of

PARTS = ("decoding", "http", "training")
GOAL = 0.97
DECODING = [  # shape, beam, batch, new tokens
    *(("base", beam, batch, tokens) for beam, batch, tokens in ((1, 1, 32), (1, 8, 24), (1, 32, 16), (4, 1, 24))),
    *(("tiny", beam, batch, tokens) for beam, batch, tokens in ((1, 1, 64), (1, 8, 64), (1, 32, 64), (4, 1, 64))),
]
HTTP: dict[str, tuple[int, int, dict[str, int]]] = {  # requests of a block, clients, more fields
    "one client, one token": (60, 1, {"max_new_tokens": 1, "beam_size": 1}),
    "one client": (40, 1, {}),
    "16 clients": (160, 16, {}),
}
BLOCKS = 4  # of each checkout in a round
TRAINING = {
    "translator": (
        "translator",
        "--source",
        "de",
        "--target",
        "en",
        "--recipe",
        "tiny",
        "--set",
        "tokens_per_batch=1000",
    ),
    "lyricist (gru)": ("lyrics", "--cell", "gru", "--recipe", "small"),
}
WORDS = ("der hund", "the dog", "sieht", "sees", "ein bier", "a beer", "und", "and", "das haus", "the house")


class Decoder:
    """The decoder process of a checkout (`against_decoder`)."""

    def __init__(self, checkout: Path, native: str) -> None:
        """native: the variant of the kernels, "" for the default."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PARLANCE_")}
        environment |= {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", CHOICE: native}
        program = ROOT / "benchmarks/against_decoder.py"
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(program)],
            cwd=checkout,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **case: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("The decoder process ended; its message is above.")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def in_turns(rounds: int, measures: Sequence[Callable[[], Any]]) -> tuple[list[Any], list[Any]]:
    """What baseline and candidate measured, round by round."""
    runs: tuple[list[Any], list[Any]] = ([], [])
    for number in range(rounds):
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            runs[index].append(measures[index]())
    return runs


def row(name: str, unit: str, runs: tuple[Sequence[float], Sequence[float]], better: str = "higher") -> dict[str, Any]:
    ratios = [(b / a if better == "higher" else a / b) for a, b in zip(*runs, strict=True)]
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    compared = {
        "name": name,
        "unit": unit,
        "baseline": round(statistics.median(runs[0]), 3),
        "candidate": round(statistics.median(runs[1]), 3),
        "ratio": round(quartiles[1], 3),
        "quartiles": [round(quartiles[0], 3), round(quartiles[2], 3)],
    }
    print("  ".join(str(value) for value in compared.values()), file=sys.stderr, flush=True)
    return compared


def missing_kernels(native: Sequence[str]) -> str:
    """A sentence about the first of these variants that this machine does not run, or "". It would measure another."""
    for name in native:
        try:
            found = name_of(loaded("int8", name))
        except ValueError as error:
            return f"{error}."
        if not found.startswith(f"parlance-{name}-"):
            return f"The kernels {name} were not loaded; the log says why."
    return ""


def decoding(
    checkouts: Sequence[Path], native: Sequence[str], rounds: int, precision: str, folder: Path
) -> Iterator[dict[str, Any]]:
    decoders = [Decoder(checkout, variant) for checkout, variant in zip(checkouts, native, strict=True)]
    try:
        for shape in ("base", "tiny"):
            decoders[0].ask(write=True, shape=shape, folder=str(folder / shape))
        for shape, beam, batch, tokens in DECODING:
            case: dict[str, Any] = {"shape": shape, "beam": beam, "batch": batch, "new_tokens": tokens}
            case |= {"folder": str(folder / shape), "precision": precision}
            for decoder in decoders:
                decoder.ask(**case)
            name = f"decoding {shape}, {'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}"
            yield row(name, "tokens/s", in_turns(rounds, [functools.partial(d.ask, **case) for d in decoders]))
    finally:
        for decoder in decoders:
            decoder.close()


def http(checkouts: Sequence[Path], rounds: int, checkpoints: Path, folder: Path) -> Iterator[dict[str, Any]]:
    served = folder / "served"
    served.mkdir()
    for name in ("demo-de-en", "demo-en-es", "lyrics-zh"):
        shutil.copytree(checkpoints / name, served / name, ignore=shutil.ignore_patterns("resume"))
    settings = {"cpu_workers": 1, "cpu_threads": 1, "precision": "int8", "log_level": "error", "data": folder / "data"}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(ours(served, checkout, **settings)) for checkout in checkouts]
        for kind, (count, clients, more) in HTTP.items():
            for server in servers:
                _load(server, 50, clients, more)
            times = in_turns(BLOCKS * rounds, [functools.partial(_load, s, count, clients, more) for s in servers])
            name = f"http {kind}, /translate"
            walls, cpus = (tuple([block[i] for block in run] for run in times) for i in (0, 1))
            if clients == 1:
                yield row(name, "ms", (walls[0], walls[1]), "lower")
            else:
                rates = [[1000 / ms for ms in run] for run in walls]
                yield row(name, "sentences/s", (rates[0], rates[1]))
            yield row(f"{name}, CPU time", "ms", (cpus[0], cpus[1]), "lower")


def _requests(count: int, more: dict[str, int]) -> list[bytes]:
    texts = itertools.islice(itertools.cycle(SENTENCES), count)
    return [wire.post("/translate", {"q": text, "source": "de", "target": "en"} | more) for text in texts]


def _load(server: Server, count: int, clients: int, more: dict[str, int]) -> tuple[float, float]:
    """Milliseconds for a request: the median latency of one client or, of several, the whole time over the number of
    requests; and the CPU time of all processes of the server."""
    before = server.cpu_s()
    latencies, seconds = asyncio.run(_asked(server, count, clients, more))
    wall = statistics.median(latencies) if clients == 1 else seconds / count
    return 1000 * wall, 1000 * (server.cpu_s() - before) / count


async def _asked(server: Server, count: int, clients: int, more: dict[str, int]) -> tuple[list[float], float]:
    client = wire.Client(server.port)
    outcomes, seconds = await closed_loop(client, _requests(count, more), clients)
    client.close()
    assert all(outcome.succeeded for outcome in outcomes)
    return [outcome.latency_s for outcome in outcomes], seconds


def training(checkouts: Sequence[Path], rounds: int, seconds: float, folder: Path) -> Iterator[dict[str, Any]]:
    pairs = [words for words in itertools.product(range(0, len(WORDS), 2), repeat=4) if len(set(words)) > 1]
    sides = ["".join(f"{' '.join(WORDS[w + side] for w in words)}\n" for words in pairs) for side in (0, 1)]
    (folder / "pairs.de").write_text(sides[0])
    (folder / "pairs.en").write_text(sides[1])
    (folder / "lines.txt").write_text(sides[1] * 20)
    corpora = {
        "translator": ("--train", f"{folder}/pairs.de,{folder}/pairs.en"),
        "lyricist (gru)": ("--corpus", f"{folder}/lines.txt"),
    }
    for name, words in TRAINING.items():
        command = [*words, *corpora[name]]
        runs = [functools.partial(_trained, checkout, command, seconds, folder / "run") for checkout in checkouts]
        yield row(f"training {name}", "tokens/s", in_turns(rounds, runs))


def _trained(checkout: Path, command: Sequence[str], seconds: float, out: Path) -> float:
    """Tokens per CPU second of a run between its first and its last line of metrics."""
    shutil.rmtree(out, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PARLANCE_")}
    environment |= {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    limits = ["--max-minutes", str(seconds / 60), "--max-epochs", "100000", "--threads", "1", "--device", "cpu"]
    limits += ["--set", "loop.validate_every_epochs=0", "--set", "loop.validate_every_updates=1000000", "--seed", "1"]
    words = [sys.executable, "-m", "training", *command, *limits, "--out", str(out)]
    output = out.with_name("training.log")
    with output.open("w") as log:
        process = subprocess.Popen(words, cwd=checkout, env=environment, stdout=log, stderr=log)
    run = Server("training", 0, process)
    marks: list[tuple[float, float]] = []  # tokens and CPU seconds at each new line
    count = 0
    while process.poll() is None:
        lines = rates_of(out)
        if len(lines) > count:
            tokens = sum(rate * elapsed for rate, elapsed in lines)
            marks.append((tokens, run.cpu_s()))
            count = len(lines)
        time.sleep(0.02)
    if process.returncode or len(marks) < 2:
        raise RuntimeError(f"The run wrote fewer than two lines of metrics:\n{output.read_text()[-2000:]}")
    return (marks[-1][0] - marks[0][0]) / (marks[-1][1] - marks[0][1])


def rates_of(out: Path) -> list[tuple[float, float]]:
    """Tokens per second, and the seconds for which they hold, of each line of a run that goes on."""
    results, before = [], 0.0
    for path in (out / "metrics.jsonl", *out.parent.glob(f".{out.name}*/metrics.jsonl")):
        with contextlib.suppress(FileNotFoundError):
            for text in path.read_text().splitlines(keepends=True):
                line = json.loads(text) if text.endswith("\n") else {}
                if "tokens_per_second" in line:
                    results.append((line["tokens_per_second"], line["seconds"] - before))
                    before = line["seconds"]
            break
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if missing := missing_kernels(options.native or ()):
        parser.error(missing)
    parts = ("decoding",) if options.native else options.parts
    checkouts = [options.baseline.resolve(), options.candidate.resolve()]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="against-") as name:
        folder = Path(name)
        if "decoding" in parts:
            rows += decoding(checkouts, options.native or ("", ""), options.rounds, options.precision, folder)
        if "http" in parts:
            rows += http(checkouts, options.rounds, options.checkpoints, folder)
        if "training" in parts:
            rows += training(checkouts, options.rounds, options.training_s, folder)
    goals = [goal(row["name"], row["ratio"], GOAL, "times the baseline", "higher") for row in rows]
    finish("against", rows, goals, as_json=options.json, out=options.results)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("--baseline", type=Path, required=True, help="a checkout")
    parser.add_argument("--candidate", type=Path, default=ROOT, help="another; by default this one")
    parser.add_argument("--checkpoints", type=Path, default=ROOT / "checkpoints", help="with the demo models")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--native", nargs=2, metavar=("BASELINE", "CANDIDATE"), help="variants of the int8 kernels")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", default="int8", help="of decoding")
    parser.add_argument("--training-s", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--results", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
