"""python -m training lyrics"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from training import recipes
from training.commands.options import add_run, device_of, loop_of
from training.corpora.texts import read_text
from training.lyricist import train_lyricist


def add_parser(commands: Any) -> None:
    command = commands.add_parser("lyrics", help="train a lyricist from a text")
    command.set_defaults(run=run)
    command.add_argument(
        "--corpus", required=True, type=Path, help="a text file, a folder of .txt files, .jsonl, each .gz too"
    )
    command.add_argument("--cell", choices=["rnn", "gru", "lstm"], default="gru")
    command.add_argument("--recipe", choices=sorted(recipes.LYRICISTS), default="small")
    add_run(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    config = recipes.LYRICISTS[arguments.recipe]()
    network = {**config.network, "cell": arguments.cell}
    config = replace(config, network=network, loop=loop_of(config.loop, arguments))
    text = read_text(arguments.corpus)
    return train_lyricist(
        config,
        text,
        origin=str(arguments.corpus),
        out=arguments.out,
        device=device_of(arguments),
        resume=arguments.resume,
        workers=arguments.workers,
    )
