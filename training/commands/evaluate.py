"""python -m training evaluate"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from training.commands.options import add_device, device_of
from training.configuration.problems import raise_all
from training.corpora import options
from training.corpora.reading import columns_of
from training.evaluate import MOST_BEAMS, evaluate


def add_parser(commands: Any) -> None:
    command = commands.add_parser("evaluate", help="score a model; the last line is one JSON object")
    command.set_defaults(run=run)
    command.add_argument("folder", type=Path)
    command.add_argument("--test", metavar="PAIRS", help=f"for translators: {options.PAIRS}")
    options.add_columns(command)
    command.add_argument("--corpus", type=Path, help="for lyricists: a text file")
    command.add_argument("--beam", type=int, default=1, help=f"beam width, 1 (greedy) to {MOST_BEAMS}")
    add_device(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    fits = 1 <= arguments.beam <= MOST_BEAMS
    raise_all(["" if fits else f"--beam must be at least 1 and at most {MOST_BEAMS}, not {arguments.beam}"])
    return evaluate(
        arguments.folder,
        test=arguments.test,
        columns=columns_of(arguments.columns),
        corpus=arguments.corpus,
        beam=arguments.beam,
        device=device_of(arguments),
    )
