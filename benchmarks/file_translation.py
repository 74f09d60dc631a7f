"""`training translate` against CTranslate2's `translate_file`: the same weights, the same file, text to text.

python -m benchmarks.file_translation --checkpoint FOLDER --data MULTI30K [--beams 1 5] [--threads 2] [--rounds 3]
                                      [--lines N] [--json] [--results FILE]

FOLDER is a translator of ours with a joint SentencePiece vocabulary, MULTI30K holds train.LANG.gz, whose 29,000 sources
are translated. The peer's best setting is found by a scan of compute types, threads and batch sizes on the first lines;
ours are the defaults. Both then take turns as commands of their own. Two ratios come of it: of the translation itself,
without start and loading, and of the whole commands. CPU seconds are of the whole commands, and say more than the clock
does where other work runs beside.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import sentencepiece

from benchmarks.peers.ctranslate2 import compute_types, convert
from benchmarks.race import say
from benchmarks.report import finish, goal
from models.checkpoint import read_config

BATCHES = ((32, "examples"), (64, "examples"), (128, "examples"), (2048, "tokens"), (4096, "tokens"))
COARSE_BATCH = BATCHES[0]
SCAN_LINES = 3000


class Timed(NamedTuple):
    """Seconds: of the translation alone and of the whole command by the clock; cpu_s: of the whole command."""

    translating_s: float
    command_s: float
    cpu_s: float


class Files(NamedTuple):
    checkpoint: Path
    model: Path  # CTranslate2's
    pieces: Path
    source: Path
    part: Path  # the first lines, for the scan
    out: Path


def timed(command: Sequence[str], threads: int, pattern: str) -> Timed:
    """pattern: finds the seconds of the translation in what the command prints."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = re.search(pattern, done.stdout + done.stderr)
    assert found, done.stderr
    return Timed(float(found[1]), seconds, cpu)


def ours(files: Files, beam: int, threads: int) -> Timed:
    files.out.unlink(missing_ok=True)
    command = ["translate", str(files.checkpoint), str(files.source), "--out", str(files.out), "--beam", str(beam)]
    options = ["--device", "cpu", "--threads", str(threads)]
    return timed([sys.executable, "-m", "training", *command, *options], threads, r"lines? in ([\d.]+) s")


def theirs(files: Files, source: Path, beam: int, setting: dict[str, Any], out: Path) -> Timed:
    paths = map(str, (files.model, files.pieces, source, out))
    command = [sys.executable, "-m", "benchmarks.peers.ctranslate2_file", *paths, json.dumps({**setting, "beam": beam})]
    return timed(command, setting["intra"], r"([\d.]+)")


def best_setting(files: Files, beam: int, threads: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Compute types and threads at one batch size first, then batch sizes for the best two of these."""
    shapes = {(threads, 1), (1, threads)}
    types = [name for name in compute_types("cpu") if name in ("int8", "int8_float32", "float32")]
    tried: dict[str, float] = {}

    def seconds(kind: str, inter: int, intra: int, batch: int, batch_type: str) -> None:
        setting = {"compute_type": kind, "inter": inter, "intra": intra, "batch": batch, "batch_type": batch_type}
        runs = [theirs(files, files.part, beam, setting, files.part.with_suffix(".out")) for _ in range(2)]
        tried[json.dumps(setting)] = min(run.translating_s for run in runs)
        say(f"scan, beam {beam}: {setting} {tried[json.dumps(setting)]:.2f} s")

    for kind in types:
        for inter, intra in sorted(shapes):
            seconds(kind, inter, intra, *COARSE_BATCH)
    for text in sorted(tried, key=lambda text: tried[text])[:2]:
        setting = json.loads(text)
        for batch, batch_type in BATCHES:
            if (batch, batch_type) != COARSE_BATCH:
                seconds(setting["compute_type"], setting["inter"], setting["intra"], batch, batch_type)
    rows = [{"beam": beam, "peer": text, "seconds": round(value, 2)} for text, value in tried.items()]
    return json.loads(min(tried, key=lambda text: tried[text])), rows


def race(files: Files, beam: int, threads: int, rounds: int, setting: dict[str, Any]) -> list[tuple[Timed, Timed]]:
    peer_out, turns = files.out.with_suffix(".peer"), []
    for number in range(rounds):
        turn = ours(files, beam, threads), theirs(files, files.source, beam, setting, peer_out)
        say(f"round {number + 1}, beam {beam}: ours {turn[0]}, CTranslate2 {turn[1]}")
        turns.append(turn)
    return turns


def agreement(files: Files) -> float:
    """The share of equal lines in both outputs: the two round differently in int8."""
    pairs = list(
        zip(
            files.out.read_text(encoding="utf-8").split("\n"),
            files.out.with_suffix(".peer").read_text(encoding="utf-8").split("\n"),
            strict=True,
        )
    )
    return sum(a == b for a, b in pairs) / len(pairs)


def prepare(arguments: argparse.Namespace, folder: Path) -> Files:
    config = read_config(arguments.checkpoint)
    pieces = arguments.checkpoint / "source.model"
    processor = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    names = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    model = convert(arguments.checkpoint, folder / "model", names)
    with gzip.open(arguments.data / f"train.{config.source_language}.gz", "rt", encoding="utf-8") as file:
        lines = file.read().split("\n")[: arguments.lines]
    source, part = folder / "source.txt", folder / "part.txt"
    source.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")
    part.write_text("\n".join(lines[:SCAN_LINES]).rstrip("\n") + "\n", encoding="utf-8")
    return Files(arguments.checkpoint, model, pieces, source, part, folder / "out.txt")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--checkpoint", type=Path, required=True)
    top.add_argument("--data", type=Path, required=True)
    top.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    top.add_argument("--threads", type=int, default=2)
    top.add_argument("--rounds", type=int, default=3)
    top.add_argument("--lines", type=int, help="only the first ones")
    top.add_argument("--results", type=Path, help="a file that gets the object that --json prints")
    top.add_argument("--json", action="store_true")
    return top


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(argv)
    rows: list[dict[str, Any]] = []
    goals = []
    with TemporaryDirectory() as folder:
        files = prepare(arguments, Path(folder))
        count = files.source.read_bytes().count(b"\n")
        for beam in arguments.beams:
            setting, scanned = best_setting(files, beam, arguments.threads)
            rows += scanned
            turns = race(files, beam, arguments.threads, arguments.rounds, setting)
            for name, place in (("parlance", 0), ("ctranslate2", 1)):
                medians = [statistics.median(column) for column in zip(*(turn[place] for turn in turns), strict=True)]
                row = {"beam": beam, "system": name, "lines_per_s": round(count / medians[0])}
                for field, value in zip(Timed._fields, medians, strict=True):
                    row[field] = round(value, 2)
                rows.append(row)
            rows.append({"beam": beam, "lines": count, "equal_lines": round(agreement(files), 3), "peer": str(setting)})
            for field, what in (("translating_s", "translating"), ("command_s", "whole command"), ("cpu_s", "CPU")):
                ratio = statistics.median(getattr(turn[1], field) / getattr(turn[0], field) for turn in turns)
                goals.append(
                    goal(f"{what}, beam {beam}, CTranslate2's time / ours", round(ratio, 3), 1.0, "×", "higher")
                )
    finish("file_translation", rows, goals, as_json=arguments.json, out=arguments.results)


if __name__ == "__main__":
    main()
