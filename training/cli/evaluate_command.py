"""The `evaluate` command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from training.cli import command_options
from training.cli.command_options import add_device, device_of
from training.config.run_config import raise_all
from training.data.corpus_loading import parse_columns
from training.evaluation.scores import MAX_BEAM_SIZE, evaluate

PENALTIES = "-10..10"


def add_parser(commands: Any) -> None:
    command = commands.add_parser("evaluate", help="score a model; the last line is one JSON object")
    command.set_defaults(run=run)
    command.add_argument("folder", type=Path)
    command.add_argument("--test", metavar="PAIRS", help=f"for translators: {command_options.PAIRS}")
    command_options.add_columns(command)
    command.add_argument("--corpus", type=Path, help="for lyricists: a text file")
    command.add_argument("--beam", type=int, help=f"for translators: 1 (greedy, the default) to {MAX_BEAM_SIZE}")
    text = f"for beams: a hypothesis' score is divided by its length to this power (default: 1), {PENALTIES}"
    command.add_argument("--length-penalty", type=float, metavar="POWER", help=text)
    add_device(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    beam, penalty = arguments.beam, arguments.length_penalty
    fits = beam is None or 1 <= beam <= MAX_BEAM_SIZE
    raise_all(
        [
            "" if fits else f"--beam must be at least 1 and at most {MAX_BEAM_SIZE}, not {beam}",
            ""
            if penalty is None or -10 <= penalty <= 10
            else f"--length-penalty must lie in {PENALTIES}, not {penalty}",
            "" if penalty is None or (beam or 1) > 1 else "--length-penalty needs a --beam of at least 2",
        ]
    )
    return evaluate(
        arguments.folder,
        test=arguments.test,
        columns=parse_columns(arguments.columns),
        corpus=arguments.corpus,
        beam=beam,
        length_penalty=penalty,
        device=device_of(arguments),
    )
