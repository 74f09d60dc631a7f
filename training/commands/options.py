"""Options that several commands have in common, and what they come to."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from training import output
from training.configuration.assembly import Statement
from training.configuration.problems import raise_all
from training.errors import TrainingError
from training.workers import Workers


class Override(argparse.Action):
    """An option that states one key of the configuration. It stays a text here: what is wrong with it is told
    together with all the rest."""

    def __init__(self, *arguments: Any, key: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.key = key

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        namespace.overrides = [*namespace.overrides, Statement(self.key, values, option_string, is_text=True)]


def add_override(command: argparse.ArgumentParser, option: str, key: str, metavar: str, text: str) -> None:
    command.add_argument(option, action=Override, key=key, dest="overrides", default=(), metavar=metavar, help=text)


def add_configuration(command: argparse.ArgumentParser, recipes: Mapping[str, Any], default: str) -> None:
    names = ", ".join(sorted(recipes))
    add_override(command, "--recipe", "recipe", "NAME", f"{names} (default: {default}); see `recipes`")
    command.add_argument("--config", type=Path, metavar="FILE", help="options from a TOML file, such as a run.toml")
    text = "any option of the configuration, such as optimizer.rate=1e-3; see `recipes --show NAME`"
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=text)


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, help="the checkpoint folder to write")
    add_override(command, "--max-minutes", "loop.max_minutes", "MINUTES", "stop after so long")
    add_override(command, "--max-epochs", "loop.max_epochs", "EPOCHS", "stop after so many passes over the corpus")
    add_override(command, "--seed", "loop.seed", "SEED", "of every random choice (default: 1)")
    command.add_argument("--resume", action="store_true", help="go on where an earlier run of --out stands")
    command.add_argument("--licence", metavar="TEXT", help="of the model, for its card, such as cc-by-4.0")
    command.add_argument("--tensorboard", action="store_true", help="write TensorBoard events into --out/events")
    command.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="share the run among N processes of this machine: one for each GPU, or for each core of a small CPU, where"
        " they are faster than threads; every one does its part of each batch. torchrun does it for several machines:"
        " torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 -m training ...",
    )
    add_device(command)
    command.set_defaults(known=[option for action in command._actions for option in action.option_strings])


def unknown_options(arguments: argparse.Namespace) -> Iterator[str]:
    """What the parser has not understood, each with the nearest option that it would have."""
    for given in arguments.unknown:
        name = given.partition("=")[0]
        near = difflib.get_close_matches(name, arguments.known, 1, 0.75)
        if given.startswith("-"):
            yield f"{name} is no option" + (f", did you mean {near[0]}?" if near else "")
    if arguments.unknown and not any(given.startswith("-") for given in arguments.unknown):
        yield f"nothing is to be done with {' '.join(arguments.unknown)}"


def check_out(arguments: argparse.Namespace) -> None:
    """Before a large corpus is read for nothing; TrainingError if the run may not write there."""
    if arguments.workers.writes:
        output.check(arguments.out, resume=arguments.resume)


def add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    command.add_argument("--threads", type=int, help="CPU threads (default: all cores)")


def device_of(arguments: argparse.Namespace, recorded: Mapping[str, Any] | None = None) -> torch.device:
    """recorded: the device and threads of a run that is to be repeated; the command line goes first."""
    recorded = recorded or {}
    device = recorded.get("device", "auto") if arguments.device == "auto" else arguments.device
    threads = recorded.get("threads") if arguments.threads is None else arguments.threads
    if threads is not None:
        raise_all([f"--threads must be at least 1, not {threads}" if threads < 1 else ""])
        torch.set_num_threads(threads)
    if device == "cuda" and not torch.cuda.is_available():
        raise TrainingError("There is no CUDA device here; use --device cpu or --device auto.")
    workers: Workers = arguments.workers
    return workers.device("cuda" if torch.cuda.is_available() and device != "cpu" else "cpu")
