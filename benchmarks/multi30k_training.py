"""The training of `benchmarks.multi30k`, by the commands of a user: teachers for each direction, their translations of
the training set, and a student of the original and the generated pairs. The teachers of the other direction generate
other sources for the same targets (Nguyen et al. 2020, "Data Diversification"). Existing results are reused, and an
interrupted run is resumed."""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.corpora import TEST, pairs, training
from benchmarks.published_bleu import moses
from models.backends.torch.int8_linear import exact_int8
from models.checkpoint import is_checkpoint
from training import snapshot

TEACHERS = "teachers"  # a folder below --out, outside the server's checkpoint folder
TEXT = "moses"  # a folder below --out, with the corpora as --moses prepares them
PARTS = ("train", "val", TEST)
TEACHER_EPOCHS = 20
BEAM = 5


def prepare_moses(data: Path, out: Path, direction: str) -> Path:
    """Multi30k lowercased, its punctuation normalised, and in Moses' tokens separated by spaces: what papers score, and
    so what --moses trains on. Returns the folder."""
    folder = out / TEXT
    folder.mkdir(parents=True, exist_ok=True)
    for part, language in ((part, language) for part in PARTS for language in direction.split("-")):
        prepared = folder / f"{part}.{language}.gz"
        if prepared.exists():
            continue
        tokens, staged = moses(language), prepared.with_suffix(".new")
        with (
            gzip.open(data / prepared.name, "rt", encoding="utf-8") as lines,
            gzip.open(staged, "wt", encoding="utf-8") as file,
        ):
            file.writelines(" ".join(tokens(line.rstrip("\n"))) + "\n" for line in lines)
        staged.rename(prepared)
    return folder


def train(
    arguments: argparse.Namespace, direction: str, seed: int, out: Path, epochs: int, more: Sequence[str] = ()
) -> None:
    """more: corpora beside the training set, for a student."""
    if is_checkpoint(out):
        return
    source, target = direction.split("-")
    options = ["--processes", str(arguments.processes), "--source", source, "--target", target]
    options += ["--recipe", "tiny", "--max-epochs", str(epochs), "--seed", str(seed), "--out", str(out)]
    options += ["--train", pairs(arguments.data, "train", direction), *more]
    options += ["--valid", pairs(arguments.data, "val", direction)]
    if more:  # one vocabulary for all models of a direction, so that any of them can be an ensemble
        options += ["--tokenizer", str(teacher_folder(arguments, direction, 1))]
    else:
        options += ["--vocab-size", str(arguments.vocab_size)] if arguments.vocab_size else []
    options += [part for option in arguments.student_set if more for part in ("--set", option)]
    if snapshot.exists(out):
        options += ["--resume"]
    training("translator", *options)


def teacher_folder(arguments: argparse.Namespace, direction: str, seed: int) -> Path:
    folder: Path = arguments.out / TEACHERS / f"multi30k-{direction}-{seed}"
    return folder


def translations(arguments: argparse.Namespace, direction: str, seed: int) -> str:
    """A teacher's translations of the training set, in a file beside it; both are made where they are missing."""
    teacher = teacher_folder(arguments, direction, seed)
    train(arguments, direction, seed, teacher, TEACHER_EPOCHS)
    out = teacher.with_name(f"{teacher.name}.jsonl.gz")
    if not out.exists():
        on_cpu = not torch.cuda.is_available()
        options = ["--train", pairs(arguments.data, "train", direction), "--beam", str(BEAM)]
        options += ["--precision", "int8" if on_cpu and exact_int8() else "fp32"]
        options += ["--processes", str(arguments.processes if on_cpu else 1)]
        training("distil", str(teacher), "--out", str(out), *options)
    return str(out)


def teach(arguments: argparse.Namespace) -> list[str]:
    """The files that students learn from, made where they are missing, --at-once at a time. The teachers are the same
    for every seed of a student: they cost as much as it does."""
    directions = arguments.direction, "-".join(reversed(arguments.direction.split("-")))
    teachers = [(direction, seed) for seed in range(1, arguments.teachers + 1) for direction in directions]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        return list(pool.map(lambda teacher: translations(arguments, *teacher), teachers))


def trained(arguments: argparse.Namespace) -> dict[int, Path]:
    """The folder of each seed's model, which is to be tested; models are trained --at-once at a time."""
    direction: str = arguments.direction
    folders: dict[int, Path] = {seed: arguments.out / f"multi30k-{direction}-{seed}" for seed in arguments.seeds}
    missing = [seed for seed, folder in folders.items() if not is_checkpoint(folder)]
    taught, epochs = teach(arguments) if missing else [], arguments.student_epochs
    with ThreadPoolExecutor(arguments.at_once) as pool:
        list(pool.map(lambda seed: train(arguments, direction, seed, folders[seed], epochs, taught), missing))
    return folders
