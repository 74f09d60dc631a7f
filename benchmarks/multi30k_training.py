"""The training of `benchmarks.multi30k`, by the commands that a user has: a teacher, its translations of the training
set, and a student of both the people's and the teacher's. What is there already is not made again, and a run that
was cut off is gone on with."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from models.checkpoint import is_checkpoint
from models.products import exact_int8
from training import snapshot

TEACHERS = "teachers"  # a folder below --out, where a server does not look for models
TEACHER_EPOCHS, STUDENT_EPOCHS = 20, 10  # a student's epoch is twice as long
BEAM = 5
SHARE = 0.45  # of a time limit for each training; what is left is for the teacher's translations


def pairs(data: Path, part: str, direction: str) -> str:
    return ",".join(f"{data}/{part}.{language}.gz" for language in direction.split("-"))


def command(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "training", *arguments], stdout=sys.stderr, check=True)


def train(arguments: argparse.Namespace, seed: int, out: Path, epochs: int, more: Sequence[str] = ()) -> None:
    """more: a corpus beside the training set."""
    if is_checkpoint(out):
        return
    source, target = arguments.direction.split("-")
    options = ["--processes", str(arguments.processes), "--source", source, "--target", target]
    options += ["--recipe", arguments.recipe, "--max-epochs", str(epochs), "--seed", str(seed), "--out", str(out)]
    options += ["--train", pairs(arguments.data, "train", arguments.direction), *more]
    options += ["--valid", pairs(arguments.data, "val", arguments.direction)]
    if arguments.minutes:
        share = 1.0 if arguments.plain else SHARE
        options += ["--max-minutes", f"{arguments.minutes * share:g}"]
    if snapshot.exists(out):
        options += ["--resume"]
    command("translator", *options)


def translations(arguments: argparse.Namespace, teacher: Path) -> Path:
    """The teacher's, in a file beside it."""
    out = teacher.with_name(f"{teacher.name}.jsonl.gz")
    if not out.exists():
        on_cpu = not torch.cuda.is_available()
        options = ["--train", pairs(arguments.data, "train", arguments.direction), "--beam", str(BEAM)]
        options += ["--precision", "int8" if on_cpu and exact_int8() else "fp32"]
        options += ["--processes", str(arguments.processes if on_cpu else 1)]
        command("distil", str(teacher), "--out", str(out), *options)
    return out


def trained(arguments: argparse.Namespace, seed: int) -> Path:
    """The folder of the model that is to be tested."""
    out: Path = arguments.out / f"multi30k-{arguments.direction}-{seed}"
    if arguments.plain:
        train(arguments, seed, out, TEACHER_EPOCHS)
    elif not is_checkpoint(out):
        teacher = arguments.out / TEACHERS / out.name
        train(arguments, seed, teacher, TEACHER_EPOCHS)
        train(arguments, seed, out, STUDENT_EPOCHS, [str(translations(arguments, teacher))])
    return out
