"""The options of the command line that say which pairs are read, and how they are cleaned."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from training.configuration.cleaning import NO_CLEANING, CleaningConfig
from training.configuration.problems import raise_all
from training.corpora.cleaning import clean
from training.corpora.hold_out import hold_out
from training.corpora.pairs import Pairs
from training.corpora.reading import columns_of, read_corpora, read_pairs

PAIRS = "SOURCE,TARGET (two files) or one file: tab-separated, .jsonl, .tmx, each .gz too; or hf:NAME[:CONFIG][:SPLIT]"
RULES = "broken, max-characters, identical-from, ratio, ratio-tolerance, duplicates, overlap, least-pairs"


def add_columns(command: argparse.ArgumentParser) -> None:
    command.add_argument("--columns", metavar="N,M", help="of tab-separated files: source and target column, from 1")


def add_cleaning(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--clean",
        metavar="RULE=VALUE",
        action="append",
        default=[],
        help=f"set a rule or switch it off: ratio=6, duplicates=off; off: no rule at all; the rules: {RULES}",
    )


def cleaning_of(settings: Sequence[str]) -> CleaningConfig:
    """The rules of the options `--clean`. All problems are named in one TrainingError."""
    config, problems = CleaningConfig(), []
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            config = (
                NO_CLEANING if setting == "off" else replace(config, **{name.replace("-", "_"): _value(name, value)})
            )
        except ValueError as error:
            problems.append(str(error))
    raise_all([*problems, *config.problems()])
    return config


def _value(name: str, value: str) -> Any:
    kinds = {field.name: str(field.type) for field in fields(CleaningConfig)}
    kind = kinds.get(name.replace("-", "_"))
    if kind is None:
        raise ValueError(f"--clean has no rule {name!r}; the rules are {RULES}")
    if kind.startswith("Literal"):
        return value
    if kind == "bool":
        if value in ("on", "off"):
            return value == "on"
        raise ValueError(f"--clean {name} takes on or off, not {value!r}")
    if value == "off" and "None" in kind:
        return None
    try:
        return float(value) if kind.startswith("float") else int(value)
    except ValueError:
        raise ValueError(f"--clean {name} takes a number{' or off' * ('None' in kind)}, not {value!r}") from None


def read_run(
    arguments: argparse.Namespace, cleaning: CleaningConfig, seed: int
) -> tuple[Pairs, Pairs | None, Pairs | None]:
    """Training pairs, cleaned; validation pairs, held out of them if none are given; test pairs."""
    languages, columns = (arguments.source, arguments.target), columns_of(arguments.columns)
    valid, test = (
        read_pairs(argument, languages, columns) if argument else None for argument in (arguments.valid, arguments.test)
    )
    train = clean(read_corpora(arguments.train, languages, columns), cleaning, validation=valid, test=test)
    if valid is None:
        train, valid = hold_out(train, seed)
    return train, valid, test
