"""`inspect-corpus`: which pairs of a corpus training would leave out, and why."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from models.language_names import code_problem
from training.cli.command_options import PAIRS, add_cleaning, add_columns
from training.cli.commands import unknown_options
from training.config.overrides import assemble
from training.config.run_config import TranslatorConfig
from training.data.cleaning import clean
from training.data.corpus_loading import parse_columns, read_corpora, read_pairs
from training.data.sentence_pairs import shortened
from training.errors import TrainingError, raise_all


def add_inspect_corpus(command: argparse.ArgumentParser) -> None:
    command.add_argument("corpus", nargs="+", help=f"pairs: {PAIRS}")
    command.add_argument("--source", help="source language code")
    command.add_argument("--target", help="target language code")
    command.add_argument("--valid", metavar="PAIRS", help="count what these have in common with the corpus")
    command.add_argument("--test", metavar="PAIRS", help="count what these have in common with the corpus")
    add_columns(command)
    add_cleaning(command)
    command.add_argument("--json", action="store_true", help="one JSON object instead of a page")


def run_inspect_corpus(arguments: argparse.Namespace) -> Mapping[str, object] | None:
    """Returns the report for --json; otherwise prints it. TrainingError for an unreadable corpus."""
    if (arguments.source is None) != (arguments.target is None):
        raise TrainingError("Give --source and --target together, or neither.")
    for option, code in (("--source", arguments.source), ("--target", arguments.target)):
        if code is not None and (problem := code_problem(code)):
            raise TrainingError(f"{option} {problem}" + "." * (not problem.endswith("?")))
    raise_all(unknown_options(arguments))
    languages = (arguments.source, arguments.target) if arguments.source else None
    cleaning = assemble(TranslatorConfig(recipe=""), arguments.overrides).cleaning
    columns = parse_columns(arguments.columns)
    valid, test = (
        read_pairs(argument, languages, columns) if argument else None for argument in (arguments.valid, arguments.test)
    )
    pairs = read_corpora(arguments.corpus, languages, columns, skip_malformed=cleaning.malformed == "skip")
    pairs = clean(pairs, replace(cleaning, least_pairs=1), validation=valid, test=test)  # training needs more of them
    if arguments.json:
        return {"report": pairs.reported().as_json(), "first": {"source": pairs.sources[0], "target": pairs.targets[0]}}
    print(*pairs.reported().lines(examples=True), sep="\n")
    for side, texts in zip(languages or ("source", "target"), (pairs.sources, pairs.targets), strict=True):
        print(f"first pair, {side}: {shortened(texts[0])!r}")
    return None
