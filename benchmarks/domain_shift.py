"""A shift in domain: a translator of captions that is tuned on 2,000 pairs of railway talk, with and without mixing.

python -m benchmarks.domain_shift --data MULTI30K --out DIR [--base FOLDER] [--seeds 1 2 3] [--part shift|marian]
                                  [--both] [--json] [--results FILE]

MULTI30K holds train.LANG.gz and val.LANG.gz (not in this repository). Everything runs by the commands of a user and is
reused if it exists. The base is a `tiny` of Multi30k, de→en, trained here unless --base names one. It is tuned on the
training part of `railway_talk`, alone and with a share of Multi30k mixed in, and two networks are trained from nothing:
on the 2,000 pairs, and with --both on them and Multi30k. Settings were chosen on railway_talk's validation part; its
test part and Multi30k's validation part (the old domain) are scored once each, greedy and with a beam of 5.

The part `marian` tunes a folder of opus-mt-de-en's shapes with random weights: time of an update, memory, loss before
and after, and an answer of the served model."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sacrebleu
from sacrebleu.significance import PairedTest, Result

from benchmarks.asked import serve_and_ask
from benchmarks.marian_folder import write_marian_folder
from benchmarks.multi30k_training import pairs
from benchmarks.railway_talk import Corpus, baselines, corpus, statistics_of, write
from benchmarks.report import finish, goal
from models.checkpoint import is_checkpoint
from training.data.corpus_loading import read_pairs
from training.loop import snapshot

BASE_EPOCHS = 10
NEW, OLD = "railway talk", "captions"
BEAMS = (1, 5)
GAIN, LOSS = 8.0, 1.0  # BLEU, on the new domain at least and on the old one at most
TUNING = ("--recipe", "finetune", "--set", "optimizer.name=muon", "--learning-rate", "6e-3", "--max-epochs", "28")
MIX_SHARE = "0.8"
SCRATCH = ("--recipe", "tiny", "--vocab-size", "2000", "--tokens-per-batch", "1000", "--max-epochs", "30")
MARIAN_TUNING = ("--recipe", "finetune", "--max-epochs", "2", "--tokens-per-batch", "500", "--learning-rate", "5e-4")
MARIAN_PAIRS, MARIAN_SENTENCES = 160, 8  # to tune on, and for validation: an update takes seconds


def training(*arguments: str) -> str:
    """The last line of a command's standard output."""
    command = [sys.executable, "-m", "training", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def railway(folder: Path, part: str) -> str:
    return f"{folder}/{part}.de,{folder}/{part}.en"


def train(arguments: argparse.Namespace, out: Path, *options: str) -> Path:
    """A translator of German, unless it exists."""
    if not is_checkpoint(out):
        resume = ["--resume"] if snapshot.exists(out) else []
        common = ["--source", "de", "--target", "en", "--threads", str(arguments.threads), "--out", str(out)]
        started = time.monotonic()
        training("translator", *common, *options, *resume)
        (out.parent / f"{out.name}.seconds").write_text(f"{time.monotonic() - started:.0f}\n", encoding="utf-8")
    return out


def systems(arguments: argparse.Namespace, folder: Path) -> dict[str, list[Path]]:
    """System -> its models, one for each seed; made where they do not exist."""
    captions = pairs(arguments.data, "train", "de-en")
    old_valid = ["--valid", pairs(arguments.data, "val", "de-en")]
    new, new_valid = railway(folder, "train"), ["--valid", railway(folder, "valid")]
    base: Path = arguments.base or train(
        arguments,
        arguments.out / "base",
        *("--recipe", "tiny", "--max-epochs", str(BASE_EPOCHS), "--train", captions, *old_valid),
    )
    tuning = ["--from", str(base), *TUNING, "--train", new, *new_valid]
    made: dict[str, list[Path]] = {"base": [base]}

    def each_seed(name: str, seeds: Sequence[int], *options: str) -> None:
        made[name] = [
            train(arguments, arguments.out / f"{name.replace(' ', '-')}-{seed}", "--seed", str(seed), *options)
            for seed in seeds
        ]

    each_seed("tuned with mixing", arguments.seeds, *tuning, "--mix", captions, "--mix-share", MIX_SHARE)
    each_seed("tuned", arguments.seeds, *tuning)
    each_seed("from nothing", arguments.seeds[:1], "--train", new, *new_valid, *SCRATCH)
    if arguments.both:
        more = ["--recipe", "tiny", "--max-epochs", str(BASE_EPOCHS)]
        each_seed("from nothing on both", arguments.seeds[:1], "--train", new, captions, *new_valid, *more)
    return made


def outputs(arguments: argparse.Namespace, model: Path, test: str, name: str, beam: int) -> list[str]:
    """Translations of a test set by `evaluate`, kept in --out."""
    kept = arguments.out / f"{model.name}.{name.replace(' ', '-')}.beam{beam}.txt"
    if not kept.exists():
        options = ["--test", test, "--beam", str(beam), "--threads", str(arguments.threads)]
        training("evaluate", str(model), *options, "--output", str(kept))
    text: str = kept.read_text(encoding="utf-8")
    return text.split("\n")[:-1]


def spread(values: Sequence[float]) -> str:
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    return float(sacrebleu.BLEU().corpus_score(hypotheses, [references]).score)


def significance(references: Sequence[str], named: Sequence[tuple[str, Sequence[str]]]) -> list[dict[str, Any]]:
    """sacreBLEU's paired bootstrap of each system against the first. p: of no difference."""
    test = PairedTest(list(named), {"BLEU": sacrebleu.BLEU()}, [references], test_type="bs", n_samples=1000)
    _, scores = test()
    first, *others = (result for result in scores["BLEU"] if isinstance(result, Result))
    rows = []
    for (name, _), result in zip(named[1:], others, strict=True):
        assert result.p_value is not None
        against = {
            "paired": name,
            "against": named[0][0],
            "bleu": round(result.score, 2),
            "p": round(result.p_value, 4),
        }
        rows.append({**against, "of": round(first.score, 2), "bootstrap": "1000 resamples"})
    return rows


def measured(
    arguments: argparse.Namespace, parts: Corpus, folder: Path, made: Mapping[str, Sequence[Path]]
) -> tuple[list[dict[str, Any]], dict[tuple[str, str, int], list[float]]]:
    """Rows, and the BLEU of each seed by (system, domain, beam)."""
    unseen = [pair.unseen_pattern for pair in parts["test"]]
    tests = {NEW: railway(folder, "test"), OLD: pairs(arguments.data, "val", "de-en")}
    rows: list[dict[str, Any]] = []
    scores: dict[tuple[str, str, int], list[float]] = {}
    for domain, test in tests.items():
        references = read_pairs(test).targets
        for beam in BEAMS:
            texts = {
                name: [outputs(arguments, model, test, domain, beam) for model in models]
                for name, models in made.items()
            }
            for name, of_seeds in texts.items():
                scores[name, domain, beam] = [bleu(lines, references) for lines in of_seeds]
                row: dict[str, Any] = {"system": name, "domain": domain, "beam": beam, "seeds": len(of_seeds)}
                row["bleu"] = spread(scores[name, domain, beam])
                for label, wanted in (("known patterns", False), ("new patterns", True)) if domain == NEW else ():
                    chosen = [i for i, is_unseen in enumerate(unseen) if is_unseen == wanted]
                    expected = [references[i] for i in chosen]
                    row[f"bleu, {label}"] = spread([bleu([lines[i] for i in chosen], expected) for lines in of_seeds])
                rows.append(row)
            named = [(name, of_seeds[0]) for name, of_seeds in texts.items()]
            rows += [{"domain": domain, "beam": beam, **row} for row in significance(references, named)]
            if domain == NEW:
                others = [pair for pair in named[1:] if pair[0] != "tuned with mixing"]
                tuned = next(pair for pair in named if pair[0] == "tuned with mixing")
                rows += [{"domain": domain, "beam": beam, **row} for row in significance(references, [tuned, *others])]
    for name, models in made.items():
        seconds = [Path(f"{model}.seconds") for model in models]
        times = [float(path.read_text(encoding="utf-8")) for path in seconds if path.exists()]
        if times:
            rows.append({"system": name, "training, minutes": round(statistics.mean(times) / 60, 1)})
    metric = sacrebleu.BLEU()
    metric.corpus_score(["."], [["."]])
    rows.append({"signature": str(metric.get_signature())})
    return rows, scores


def shift(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    parts, folder = corpus(), arguments.out / "railway"
    write(parts, folder)
    made = systems(arguments, folder)
    rows, scores = measured(arguments, parts, folder, made)

    def gain(system: str, domain: str) -> float:
        return statistics.mean(scores[system, domain, 1]) - scores["base", domain, 1][0]

    mixed, scratch = gain("tuned with mixing", NEW), gain("from nothing", NEW)
    goals = [
        goal("gain on the new domain, tuned with mixing, greedy", round(mixed, 2), GAIN, "BLEU", "higher"),
        goal(
            "loss on the old domain, tuned with mixing, greedy",
            round(-gain("tuned with mixing", OLD), 2),
            LOSS,
            "BLEU",
            "lower",
        ),
        goal(
            "gain on the new domain over training from nothing on the same pairs",
            round(mixed - scratch, 2),
            0.01,
            "BLEU",
            "higher",
        ),
    ]
    return [*statistics_of(parts), *baselines(parts), *rows], goals


def marian(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A few updates of a Marian folder with random weights, and what becomes of it."""
    parts, folder = corpus(), arguments.out / "railway"
    write(parts, folder)
    start, served = arguments.out / "opus-mt-de-en-random", arguments.out / "served"
    if not (start / "model.safetensors").exists():
        captions = read_pairs(pairs(arguments.data, "train", "de-en"))
        write_marian_folder(start, captions.sources, captions.targets)
    few = {"train": parts["train"][:MARIAN_PAIRS], "valid": parts["valid"][:MARIAN_SENTENCES]}
    write(few, arguments.out / "few")
    out = served / "tuned-marian"
    if not is_checkpoint(out):
        options = ["--from", str(start), "--source", "de", "--target", "en", *MARIAN_TUNING, "--out", str(out)]
        options += ["--set", "optimizer.warmup_updates=2", "--threads", str(arguments.threads)]
        options += [
            "--train",
            railway(arguments.out / "few", "train"),
            "--valid",
            railway(arguments.out / "few", "valid"),
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "training", "translator", *options], stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit("The tuning of the Marian folder failed.")
        out.with_suffix(".peak").write_text(f"{usage.ru_maxrss / 2**20:.2f}\n", encoding="utf-8")
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [float(row["valid_loss"]) for row in metrics if "valid_loss" in row]
    updates, seconds = metrics[-1]["update"], metrics[-1]["seconds"]
    row: dict[str, Any] = {"system": "Marian folder, random weights", "updates": updates}
    row["seconds an update, with validation"] = round(seconds / updates, 2)
    row["peak, GiB"] = float(out.with_suffix(".peak").read_text(encoding="utf-8"))
    row["validation loss"] = [round(loss, 3) for loss in losses]
    test = railway(arguments.out / "few", "valid")
    score = json.loads(training("evaluate", str(out), "--test", test, "--threads", str(arguments.threads)))
    sentence = parts["valid"][0].source
    translation, ready_s, names = serve_and_ask(served, out.name, sentence, "de", "en")
    row |= {"perplexity": score["perplexity"], "served": names, "ready_s": ready_s, "sentence": sentence}
    row["translation"] = translation
    fall = goal("a Marian folder's loss, last less first", round(losses[-1] - losses[0], 3), 0.0, "nats", "lower")
    return [row], [fall]


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--data", type=Path, required=True, help="the folder of Multi30k")
    top.add_argument("--out", type=Path, required=True, help="where corpora, models and outputs go")
    top.add_argument("--base", type=Path, help="the translator to tune (default: one is trained)")
    top.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    top.add_argument("--part", choices=("shift", "marian"), default="shift")
    top.add_argument("--both", action="store_true", help="also from nothing on both corpora")
    top.add_argument("--threads", type=int, default=1)
    top.add_argument("--results", type=Path, help="a file that gets the object that --json prints")
    top.add_argument("--json", action="store_true")
    return top


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows, goals = (shift if arguments.part == "shift" else marian)(arguments)
    finish("domain_shift", rows, goals, as_json=arguments.json, out=arguments.results)


if __name__ == "__main__":
    main()
