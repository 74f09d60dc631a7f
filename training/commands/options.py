"""Options that several commands have in common, and what they come to."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from training.config import LoopConfig, raise_all
from training.errors import TrainingError
from training.parallel import Workers


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", required=True, type=Path, help="the checkpoint folder to write")
    command.add_argument("--max-minutes", type=float, help="stop after so long")
    command.add_argument("--max-epochs", type=int, help="stop after so many passes over the corpus")
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--resume", action="store_true", help="go on where an earlier run of --out stands")
    add_device(command)


def add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    command.add_argument("--threads", type=int, help="CPU threads (default: all cores)")


def device_of(arguments: argparse.Namespace) -> torch.device:
    if arguments.threads is not None:
        raise_all([f"--threads must be at least 1, not {arguments.threads}" if arguments.threads < 1 else ""])
        torch.set_num_threads(arguments.threads)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise TrainingError("There is no CUDA device here; use --device cpu or --device auto.")
    usable = torch.cuda.is_available() and arguments.device != "cpu"
    workers: Workers = arguments.workers
    return workers.device("cuda" if usable else "cpu")


def loop_of(loop: LoopConfig, arguments: argparse.Namespace) -> LoopConfig:
    if arguments.max_minutes is not None:
        # a time limit replaces the recipe's number of epochs, unless that is given as well
        loop = replace(loop, max_minutes=arguments.max_minutes, max_epochs=10_000)
    if arguments.max_epochs is not None:
        loop = replace(loop, max_epochs=arguments.max_epochs)
    loop = replace(loop, seed=arguments.seed)
    raise_all(loop.problems())
    return loop
