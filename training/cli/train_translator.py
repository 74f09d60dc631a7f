"""The `translator` command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from training.cli import command_options
from training.cli.command_options import add_configuration, add_override, add_run, build_config, check_out, device_of
from training.config import recipes
from training.config.overrides import Override
from training.config.run_config import raise_all
from training.errors import CannotStart
from training.training_run import TrainingRun
from training.translator_run import train_translator

NEEDED = {"source_language": "--source", "target_language": "--target", "train": "--train"}


def add_parser(commands: Any) -> None:
    command = commands.add_parser("translator", help="train a translator from pairs of sentences")
    command.set_defaults(run=run)
    add_override(command, "--source", "source_language", "CODE", "source language code, such as de")
    add_override(command, "--target", "target_language", "CODE", "target language code, such as en")
    command.add_argument("--train", metavar="PAIRS", nargs="+", action="extend", help=command_options.PAIRS)
    command.add_argument("--valid", metavar="PAIRS", help="held-out pairs (default: a share of --train)")
    command.add_argument("--test", metavar="PAIRS", help="scored once, at the end, for the model card")
    command_options.add_columns(command)
    command_options.add_cleaning(command)
    add_configuration(command, recipes.TRANSLATORS, "tiny")
    add_override(command, "--vocabulary", "tokenizer.size", "PIECES", "pieces of the SentencePiece vocabulary, at most")
    add_run(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(arguments, name) for name in ("train", "valid", "test", "columns")}
    stated, problems = cleaning_statements(arguments.clean)
    config, data, file = build_config(arguments, recipes.TRANSLATORS, "tiny", given, NEEDED, stated, problems)
    device = device_of(arguments, file.machine)
    check_out(arguments)
    languages = {"source": config.source_language, "target": config.target_language}
    corpora = argparse.Namespace(**languages, **{name: data.get(name) for name in given})
    train, valid, test = command_options.read_run(corpora, config.cleaning, config.loop.seed)
    arguments.workers.note("\n".join(train.reported().lines()))
    if valid is None:
        asked = any(text.partition("=")[0].strip() == "loop.choose_by" for text in arguments.set)
        raise_all(
            ["loop.choose_by = bleu needs held-out pairs: give --valid"] * (asked and config.loop.choose_by == "bleu")
        )
        arguments.workers.note("Too few pairs to hold some out: nothing is validated, and the last weights are kept.")
    training_run = TrainingRun(
        out=arguments.out,
        device=device,
        resume=arguments.resume,
        workers=arguments.workers,
        data=data,
        licence=arguments.licence,
        tensorboard=arguments.tensorboard,
    )
    return train_translator(config, train, valid, training_run, test=test)


def cleaning_statements(settings: Sequence[str]) -> tuple[list[Override], list[str]]:
    """What each --clean states of `cleaning`, and what is wrong with those that state nothing."""
    stated: list[Override] = []
    problems: list[str] = []
    for setting in settings:
        try:
            config = command_options.cleaning_of([setting])
        except CannotStart as error:
            problems += error.problems
            continue
        name = setting.partition("=")[0].replace("-", "_")
        names = [field.name for field in fields(config)] if setting == "off" else [name]
        stated += [Override(f"cleaning.{name}", getattr(config, name), "--clean") for name in names]
    return stated, problems
