"""Ten million generated pairs: read, cleaned, tokenized and trained on within 4 GiB, and resumed to the bit.

python -m benchmarks.large_corpus [--pairs N] [--updates N] [--recipe NAME ...] [--folder FOLDER] [--json]

A seeded grammar writes the pairs. Every run is `python -m training translator` in a process of its own, of which the
peak of the resident memory is measured, in all and by phase: one run to the end, one that SIGKILL ends in the middle
and that then goes on with --resume. Further recipes take a few updates each, to measure their memory on this corpus."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import finish, goal

GIB = 1 << 30
GOAL_GIB = 4.0
WATCH_S = 0.1
FEW_UPDATES = 3  # of further recipes
SMALL_BATCH = 2500  # tokens, of further recipes: their own batches are for GPUs


def phrases(generator: random.Random, count: int, longest: int) -> tuple[list[str], list[str]]:
    """Phrases of one to `longest` made-up words in two languages, word for word but with reversed order."""
    syllables = ["ba", "do", "fi", "gu", "ka", "le", "mi", "no", "pe", "ru", "sa", "to", "vi", "wu", "zä", "ßo"]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(30_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]  # as words are in texts (Zipf)
    sources, targets = [], []
    for _ in range(count):
        places = generator.choices(range(len(words)), weights, k=generator.randint(1, longest))
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


def child(updates: int, kill_at: int, log: Path, arguments: list[str]) -> int:
    """The command line of training, stopped after `updates`, with the time and memory of its phases in `log`. kill_at:
    the update behind which the process saves and kills itself; 0: none."""
    from training import __main__ as training
    from training import translator_run
    from training.data import corpus_loading
    from training.loop import schedule, snapshot, tasks, trainer

    phases: list[dict[str, Any]] = []

    def note(row: dict[str, Any]) -> None:
        phases.append(row)
        log.write_text(json.dumps(phases), encoding="utf-8")

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        started, used = time.monotonic(), time.process_time()
        yield
        times = {"s": round(time.monotonic() - started, 1), "CPU s": round(time.process_time() - used, 1)}
        note({"phase": name, **times, "peak GiB": peak_gib()})

    def timed(module: Any, name: str, called: str) -> None:
        original: Callable[..., Any] = getattr(module, name)

        def measured(*given: Any, **options: Any) -> Any:
            with phase(called):
                return original(*given, **options)

        setattr(module, name, measured)

    timed(corpus_loading, "read_corpora", "read")
    timed(corpus_loading, "clean", "clean")
    timed(corpus_loading, "hold_out", "hold out")
    timed(corpus_loading, "save_prepared", "write the prepared corpus")
    timed(corpus_loading, "load_prepared", "map the prepared corpus")
    timed(translator_run, "fit_translator_tokenizers", "fit the vocabulary")
    timed(translator_run, "Segmentation", "tokenize")
    timed(snapshot, "fingerprint", "fingerprint")
    timed(tasks, "batches_by_length", "order of an epoch, or of a validation")
    stopped, step = schedule.Planner.limit_reached, trainer.Trainer._step
    began: list[float] = []

    def limit_reached(planner: schedule.Planner, progress: Any) -> str:
        return f"{updates} updates" if progress.update >= updates else stopped(planner, progress)

    def counted_step(running: trainer.Trainer, batches: Any) -> None:
        if not began:
            Path("/proc/self/clear_refs").write_text("5")
            began.extend((time.monotonic(), time.process_time()))
        step(running, batches)
        done = running.progress.update
        if done in (updates, kill_at):
            times = {"s": round(time.monotonic() - began[0], 1), "CPU s": round(time.process_time() - began[1], 1)}
            note({"phase": f"updates to {done}", **times, "peak GiB": peak_gib()})
        if done == kill_at:
            running._save(force=True)
            os.kill(os.getpid(), signal.SIGKILL)

    schedule.Planner.limit_reached = limit_reached  # type: ignore[method-assign]
    trainer.Trainer._step = counted_step  # type: ignore[method-assign]
    return training.main(arguments)


def peak_gib() -> float:
    """Of this process, since the last reset."""
    status = Path("/proc/self/status").read_text()
    return round(next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / (1 << 20), 2)


def tree_memory(root: int) -> tuple[int, int]:
    """Resident bytes of a process and its children: all, and those that are not pages of files."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    tree, total, anonymous = [root], 0, 0
    for process in tree:  # grows while it is read
        tree += children.get(process, [])
        try:
            status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
        except OSError:
            continue
        total += int(status.get("VmRSS", "0 kB").split()[0]) * 1024
        anonymous += int(status.get("RssAnon", "0 kB").split()[0]) * 1024
    return total, anonymous


def run(folder: Path, out: str, updates: int, options: list[str], kill_at: int = 0) -> dict[str, Any]:
    """Trains in a child process; returns times, peaks and the digest of the weights."""
    log = folder / f"{out}-phases.json"
    log.unlink(missing_ok=True)
    corpus = f"{folder / 'train.aa'},{folder / 'train.bb'}"
    training = ["translator", "--source", "aa", "--target", "bb", "--train", corpus, "--out", str(folder / out)]
    own = [sys.executable, "-m", "benchmarks.large_corpus", "--child", str(updates), str(kill_at), str(log)]
    command = [*own, *training, *options]
    environment = {**os.environ, "TRAINING_CACHE": str(folder / "cache")}
    started, most, most_anonymous = time.monotonic(), 0, 0
    with (folder / f"{out}.log").open("ab") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        while process.poll() is None:
            total, anonymous = tree_memory(process.pid)
            most, most_anonymous = max(most, total), max(most_anonymous, anonymous)
            time.sleep(WATCH_S)
    expected = -signal.SIGKILL if kill_at else 0
    if process.returncode != expected:
        raise SystemExit(f"{out} ended with {process.returncode}: {(folder / f'{out}.log').read_text()[-3000:]}")
    weights = folder / out / "model.safetensors"
    return {
        "run": out,
        "s": round(time.monotonic() - started, 1),
        "peak GiB": round(most / GIB, 2),
        "of that not files": round(most_anonymous / GIB, 2),
        "phases": json.loads(log.read_text()),
        "sha256": hashlib.sha256(weights.read_bytes()).hexdigest() if weights.exists() else None,
    }


def measure(folder: Path, pairs: int, updates: int, recipes: list[str]) -> tuple[list[dict[str, Any]], list[Any]]:
    started = time.monotonic()
    if not (folder / "train.bb").exists():
        write_corpus(folder / "train.aa", folder / "train.bb", pairs)
    size = sum((folder / name).stat().st_size for name in ("train.aa", "train.bb"))
    rows = [{"pairs": pairs, "corpus GB": round(size / 1e9, 2), "generated in s": round(time.monotonic() - started)}]
    options = ["--recipe", recipes[0], "--set", "loop.validate_sentences=200", "--set", "loop.sample_translations=0"]
    whole = run(folder, "whole", updates, options)
    killed = run(folder, "parts", updates, options, kill_at=updates // 2)
    resumed = run(folder, "parts", updates, [*options, "--resume"])
    named = [
        f"{recipes[0]}, to the end",
        f"{recipes[0]}, killed after {updates // 2} updates",
        f"{recipes[0]}, resumed",
    ]
    runs = [{**row, "run": name} for row, name in zip((whole, killed, resumed), named, strict=True)]
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
        updates, kill_at, log, *arguments = sys.argv[2:]
        sys.exit(child(int(updates), int(kill_at), Path(log), arguments))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--recipe", nargs="+", default=["tiny", "base"], help="the first one is resumed, too")
    parser.add_argument("--folder", type=Path, help="keep corpus, cache and runs here (default: removed at the end)")
    parser.add_argument("--out", type=Path, help="a file for the result")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.folder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        rows, goals = measure(arguments.folder, arguments.pairs, arguments.updates, arguments.recipe)
    else:
        with tempfile.TemporaryDirectory() as folder:
            rows, goals = measure(Path(folder), arguments.pairs, arguments.updates, arguments.recipe)
    finish("large_corpus", rows, goals, as_json=arguments.json, out=arguments.out)


if __name__ == "__main__":
    main()
