"""python -m training translator"""

from __future__ import annotations

import argparse
from typing import Any

from training import recipes
from training.commands.configured import configured
from training.commands.options import PAIRS, add_configuration, add_override, add_run, device_of
from training.corpus import hold_out, read_pairs
from training.record import Record
from training.translator import train_translator

NEEDED = {"source_language": "--source", "target_language": "--target", "train": "--train"}


def add_parser(commands: Any) -> None:
    command = commands.add_parser("translator", help="train a translator from pairs of sentences")
    command.set_defaults(run=run)
    add_override(command, "--source", "source_language", "CODE", "source language code, such as de")
    add_override(command, "--target", "target_language", "CODE", "target language code, such as en")
    command.add_argument("--train", metavar="PAIRS", help=PAIRS)
    command.add_argument("--valid", metavar="PAIRS", help="held-out pairs (default: a share of --train)")
    command.add_argument("--test", metavar="PAIRS", help="scored once, at the end, for the model card")
    add_configuration(command, recipes.TRANSLATORS, "tiny")
    add_override(command, "--vocabulary", "tokenizer.size", "PIECES", "pieces of the SentencePiece vocabulary, at most")
    add_run(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    given = {"train": arguments.train, "valid": arguments.valid, "test": arguments.test}
    config, data, file = configured(arguments, recipes.TRANSLATORS, "tiny", given, NEEDED)
    device = device_of(arguments, file.machine)
    train, valid = read_pairs(data["train"]), read_pairs(data["valid"]) if "valid" in data else None
    test = read_pairs(data["test"]) if "test" in data else None
    if valid is None:
        train, valid = hold_out(train, config.loop.seed)
    return train_translator(
        config,
        train,
        valid,
        out=arguments.out,
        device=device,
        test=test,
        resume=arguments.resume,
        record=Record(data=data, licence=arguments.licence, tensorboard=arguments.tensorboard),
    )
