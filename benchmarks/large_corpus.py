"""Ten million generated pairs: read, cleaned, tokenized and trained on within 4 GiB, and resumed to the bit.

python -m benchmarks.large_corpus [--pairs N] [--updates N] [--recipe NAME ...] [--json]

A seeded grammar writes the pairs. Every run is `python -m training translator` in a process of its own, of which the
peak of the resident memory is measured: one run to the end, one that SIGKILL ends in the middle
and that then goes on with --resume. Further recipes take a few updates each, to measure their memory on this corpus."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.report import argument_parser, finish, goal
from benchmarks.servers import family, resident_mb

GOAL_GIB = 4.0
WATCH_S = 0.1
FEW_UPDATES = 3  # of further recipes
SMALL_BATCH = 2500  # tokens, of further recipes: their own batches are for GPUs


def phrases(generator: random.Random, count: int, longest: int) -> tuple[list[str], list[str]]:
    """Phrases of one to `longest` made-up words in two languages, word for word but with reversed order."""
    syllables = ["ba", "do", "fi", "gu", "ka", "le", "mi", "no", "pe", "ru", "sa", "to", "vi", "wu", "zä", "ßo"]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(30_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))  # as words are in texts (Zipf)
    sources, targets = [], []
    for _ in range(count):
        places = generator.choices(range(len(words)), cum_weights=weights, k=generator.randint(1, longest))
        sources.append(" ".join(words[place] for place in places))
        targets.append(" ".join(words[place][::-1] + "s" for place in reversed(places)))
    return sources, targets


def write_corpus(source: Path, target: Path, pairs: int) -> None:
    """Sentences of one to five phrases, some 12 words; 2 % are copies of earlier ones."""
    generator = random.Random(20_000_000)
    sources, targets = phrases(generator, 60_000, 7)
    with source.open("w", encoding="utf-8") as first, target.open("w", encoding="utf-8") as second:
        for done in range(0, pairs, 50_000):
            rows: list[list[int]] = []
            for _ in range(min(50_000, pairs - done)):
                copied = rows and generator.random() < 0.02
                parts = generator.choices(range(len(sources)), k=generator.randint(1, 5))
                rows.append(generator.choice(rows) if copied else parts)
            first.write("".join(", ".join([sources[i] for i in row]) + ".\n" for row in rows))
            second.write("".join(", ".join([targets[i] for i in row]) + ".\n" for row in rows))


def child(updates: int, kill_at: int, arguments: list[str]) -> int:
    """The command line of training, stopped after `updates`. kill_at: the update after which the process saves and
    kills itself; 0: none."""
    from training import __main__ as training
    from training.loop import run_plan, trainer

    stopped, step = run_plan.Planner.limit_reached, trainer.Trainer._step

    def limit_reached(planner: run_plan.Planner, progress: Any) -> str:
        return f"{updates} updates" if progress.update >= updates else stopped(planner, progress)

    def counted_step(running: trainer.Trainer, batches: Any) -> None:
        step(running, batches)
        if running.progress.update == kill_at:
            running._save(force=True)
            os.kill(os.getpid(), signal.SIGKILL)

    run_plan.Planner.limit_reached = limit_reached  # type: ignore[method-assign]
    trainer.Trainer._step = counted_step  # type: ignore[method-assign]
    return training.main(arguments)


def run(folder: Path, out: str, updates: int, options: list[str], kill_at: int = 0) -> dict[str, Any]:
    """Trains in a child process; returns its time, its peak and the digest of the weights."""
    corpus = f"{folder / 'train.aa'},{folder / 'train.bb'}"
    training = ["translator", "--source", "aa", "--target", "bb", "--train", corpus, "--out", str(folder / out)]
    own = [sys.executable, "-m", "benchmarks.large_corpus", "--child", str(updates), str(kill_at)]
    command = [*own, *training, *options]
    environment = {**os.environ, "TRAINING_CACHE": str(folder / "cache")}
    started, most_mb = time.monotonic(), 0.0
    with (folder / f"{out}.log").open("ab") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            while process.poll() is None:
                most_mb = max(most_mb, sum(map(resident_mb, family(process.pid))))
                time.sleep(WATCH_S)
        finally:
            process.kill()
    expected = -signal.SIGKILL if kill_at else 0
    if process.returncode != expected:
        raise SystemExit(f"{out} ended with {process.returncode}: {(folder / f'{out}.log').read_text()[-3000:]}")
    weights = folder / out / "model.safetensors"
    return {
        "run": out,
        "s": round(time.monotonic() - started, 1),
        "peak GiB": round(most_mb / 1024, 2),
        "sha256": hashlib.sha256(weights.read_bytes()).hexdigest() if weights.exists() else None,
    }


def measure(folder: Path, pairs: int, updates: int, recipes: list[str]) -> tuple[list[dict[str, Any]], list[Any]]:
    started = time.monotonic()
    write_corpus(folder / "train.aa", folder / "train.bb", pairs)
    size = sum((folder / name).stat().st_size for name in ("train.aa", "train.bb"))
    rows = [{"pairs": pairs, "corpus GB": round(size / 1e9, 2), "generated in s": round(time.monotonic() - started)}]
    options = ["--recipe", recipes[0], "--set", "loop.validate_sentences=200", "--set", "loop.sample_translations=0"]
    whole = run(folder, "whole", updates, options)
    killed = run(folder, "parts", updates, options, kill_at=updates // 2)
    resumed = run(folder, "parts", updates, [*options, "--resume"])
    names = ("to the end", f"killed after {updates // 2} updates", "resumed")
    runs = [{**row, "run": f"{recipes[0]}, {name}"} for row, name in zip((whole, killed, resumed), names, strict=True)]
    for recipe in recipes[1:]:
        small = [*options[2:], "--recipe", recipe, "--tokens-per-batch", str(SMALL_BATCH)]
        runs.append({**run(folder, recipe, FEW_UPDATES, small), "run": f"{recipe}, {SMALL_BATCH} tokens a batch"})
    same = float(whole["sha256"] is not None and whole["sha256"] == resumed["sha256"])
    goals = [
        goal(f"peak of the resident memory, {row['run']}", row["peak GiB"], GOAL_GIB, "GiB", "lower") for row in runs
    ]
    return [*rows, *runs], [*goals, goal("the resumed run ends with the same bits", same, 1.0, "(1: yes)", "higher")]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        updates, kill_at, *arguments = sys.argv[2:]
        sys.exit(child(int(updates), int(kill_at), arguments))
    top = argument_parser("large_corpus", __doc__)
    top.add_argument("--pairs", type=int, default=10_000_000)
    top.add_argument("--updates", type=int, default=200)
    top.add_argument("--recipe", nargs="+", default=["tiny", "base"], help="the first one is resumed, too")
    arguments = top.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows, goals = measure(Path(folder), arguments.pairs, arguments.updates, arguments.recipe)
    finish(arguments, rows, goals)


if __name__ == "__main__":
    main()
