"""`training translate` against CTranslate2's `translate_file`: the same weights, the same file, text to text.

python -m benchmarks.file_translation --checkpoint FOLDER --data MULTI30K [--beams 1 5] [--rounds 3] [--lines N]

FOLDER is a translator of ours with a joint SentencePiece vocabulary, MULTI30K holds train.LANG.gz, whose 29,000 sources
are translated with two threads. The peer's best setting is found by a scan of compute types, threads and batch sizes on
the first lines; ours are the defaults. Both then take turns as commands of their own. Two ratios come of it: of the
translation itself, without start and loading, and of the whole commands.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import sentencepiece

from benchmarks.corpora import multi30k_lines
from benchmarks.peers.ctranslate2 import compute_types, convert
from benchmarks.race import in_turns, ratio, say
from benchmarks.report import argument_parser, finish, goal
from models.checkpoint import read_config

THREADS = 2
LAYOUTS = ((THREADS, 1), (1, THREADS))  # the peer's translators × threads of each
TYPES = ("int8", "int8_float32", "float32")
BATCHES = ((32, "examples"), (64, "examples"), (128, "examples"), (2048, "tokens"), (4096, "tokens"))
SCAN_LINES = 3000


class Timed(NamedTuple):
    """Seconds of the translation alone, and of the whole command."""

    translating_s: float
    command_s: float


class Files(NamedTuple):
    """part: the first lines of the source, for the scan. model: CTranslate2's."""

    checkpoint: Path
    model: Path
    source: Path
    part: Path


def timed(command: Sequence[str], threads: int, pattern: str) -> Timed:
    """pattern: finds the seconds of the translation in what the command prints."""
    started, environment = time.perf_counter(), {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds = time.perf_counter() - started
    found = re.search(pattern, done.stdout + done.stderr)
    assert found, done.stderr
    return Timed(float(found[1]), seconds)


def ours(files: Files, beam: int) -> Timed:
    out = files.source.with_suffix(".ours")
    out.unlink(missing_ok=True)
    command = ["translate", str(files.checkpoint), str(files.source), "--out", str(out), "--beam", str(beam)]
    options = ["--device", "cpu", "--threads", str(THREADS)]
    return timed([sys.executable, "-m", "training", *command, *options], THREADS, r"lines? in ([\d.]+) s")


def theirs(files: Files, source: Path, beam: int, setting: dict[str, Any]) -> Timed:
    paths = (files.model, files.checkpoint / "source.model", source, source.with_suffix(".theirs"))
    options = json.dumps({**setting, "beam": beam})
    command = [sys.executable, "-m", "benchmarks.peers.ctranslate2_file", *map(str, paths), options]
    return timed(command, setting["intra"], r"([\d.]+)")


def best_setting(files: Files, beam: int) -> dict[str, Any]:
    """Compute types and threads at one batch size first, then batch sizes for the best two of these."""

    def seconds(setting: dict[str, Any]) -> float:
        result = min(theirs(files, files.part, beam, setting).translating_s for _ in range(2))
        say(f"scan, beam {beam}: {setting} {result:.2f} s")
        return result

    def batched(setting: dict[str, Any], batch: tuple[int, str]) -> dict[str, Any]:
        return {**setting, "batch": batch[0], "batch_type": batch[1]}

    kinds = [kind for kind in compute_types("cpu") if kind in TYPES]
    shapes = [{"compute_type": kind, "inter": n, "intra": m} for kind, (n, m) in itertools.product(kinds, LAYOUTS)]
    fastest = sorted(shapes, key=lambda shape: seconds(batched(shape, BATCHES[0])))[:2]
    return min((batched(shape, batch) for shape in fastest for batch in BATCHES), key=seconds)


def agreement(source: Path) -> float:
    """The share of equal lines in both outputs: the two round differently in int8."""
    texts = (source.with_suffix(suffix).read_text(encoding="utf-8").split("\n") for suffix in (".ours", ".theirs"))
    pairs = list(zip(*texts, strict=True))
    return sum(a == b for a, b in pairs) / len(pairs)


def prepare(arguments: argparse.Namespace, folder: Path) -> Files:
    config = read_config(arguments.checkpoint)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(arguments.checkpoint / "source.model"))
    names = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    model = convert(arguments.checkpoint, folder / "model", names)
    lines = multi30k_lines(arguments.data, "train", str(config.source_language), arguments.lines)
    source, part = folder / "source.txt", folder / "part.txt"
    source.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")
    part.write_text("\n".join(lines[:SCAN_LINES]).rstrip("\n") + "\n", encoding="utf-8")
    return Files(arguments.checkpoint, model, source, part)


def main() -> None:
    top = argument_parser("file_translation", __doc__)
    top.add_argument("--checkpoint", type=Path, required=True)
    top.add_argument("--data", type=Path, required=True)
    top.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    top.add_argument("--rounds", type=int, default=3)
    top.add_argument("--lines", type=int, help="only the first ones")
    arguments = top.parse_args()
    rows, goals = list[dict[str, Any]](), list[dict[str, Any]]()
    with TemporaryDirectory() as folder:
        files = prepare(arguments, Path(folder))
        for beam in arguments.beams:
            setting = best_setting(files, beam)
            contenders = {
                "parlance": lambda _, beam=beam: ours(files, beam),
                "ctranslate2": lambda _, beam=beam, setting=setting: theirs(files, files.source, beam, setting),
            }
            turns = in_turns(arguments.rounds, contenders)
            for name, runs in turns.items():
                medians = {
                    field: round(statistics.median(getattr(r, field) for r in runs), 2) for field in Timed._fields
                }
                rows.append({"beam": beam, "system": name, **medians})
            rows.append({"beam": beam, "equal_lines": round(agreement(files.source), 3), "peer": str(setting)})
            for field, what in zip(Timed._fields, ("translating", "whole command"), strict=True):
                times = ([getattr(run, field) for run in turns[name]] for name in contenders)
                value = ratio(*times).median
                goals.append(goal(f"{what}, beam {beam}, CTranslate2's time / ours", value, 1.0, "×", "higher"))
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
