"""The `lyrics` command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from training.cli.command_options import add_configuration, add_override, add_run, build_config, check_out, device_of
from training.config import recipes
from training.data.corpus_loading import read_text
from training.errors import pluralize
from training.lyricist_run import train_lyricist
from training.training_run import TrainingRun


def add_parser(commands: Any) -> None:
    command = commands.add_parser("lyrics", help="train a lyricist from a text")
    command.set_defaults(run=run)
    command.add_argument("--corpus", metavar="CORPUS", help="a text file, a folder of .txt files, .jsonl, each .gz too")
    add_override(command, "--cell", "network.cell", "CELL", "rnn, gru or lstm (default: gru)")
    add_configuration(command, recipes.LYRICISTS, f"small, or medium from {recipes.MEDIUM_TEXT:,} characters on")
    add_run(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    given, needed = {"corpus": arguments.corpus}, {"corpus": "--corpus"}
    _, data, _ = build_config(arguments, recipes.LYRICISTS, recipes.lyricist_for(0), given, needed)
    check_out(arguments)
    corpus = str(data["corpus"])
    text = read_text(Path(corpus))
    # the text's length chooses the recipe where none is named, so the configuration is asked for again
    fitting = recipes.lyricist_for(len(text))
    config, data, file = build_config(arguments, recipes.LYRICISTS, fitting, given, needed)
    device = device_of(arguments, file.machine)
    arguments.workers.note(f"Recipe {config.recipe}, a text of {pluralize(len(text), 'character')}.")
    training_run = TrainingRun(
        out=arguments.out,
        device=device,
        resume=arguments.resume,
        workers=arguments.workers,
        data=data,
        licence=arguments.licence,
        tensorboard=arguments.tensorboard,
    )
    return train_lyricist(config, text, training_run, origin=corpus)
