"""`inspect-corpus`: what is in a corpus."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from models.language_names import code_problem
from training.cli.command_options import (
    PAIRS,
    add_cleaning,
    add_columns,
)
from training.cli.commands import unknown_options
from training.config.overrides import assemble
from training.config.run_config import TranslatorConfig
from training.data.cleaning import clean
from training.data.corpus_files import stem_suffix
from training.data.corpus_loading import (
    HUGGINGFACE_PREFIX,
    JSON_LINES,
    TEXT_FORMATS,
    parse_columns,
    read_corpora,
    read_pairs,
    read_text,
)
from training.data.corpus_statistics import Statistics, page_of_pairs, page_of_text, pair_statistics, text_statistics
from training.errors import TrainingError, raise_all

AS_PAIRS = "To read pairs of texts, give --source and --target."


def add_inspect_corpus(command: argparse.ArgumentParser) -> None:
    command.add_argument("corpus", nargs="+", help=f"pairs: {PAIRS}; or a text or a folder of texts")
    command.add_argument("--source", help="source language code; with --target the corpus is read as pairs")
    command.add_argument("--target", help="target language code")
    command.add_argument("--valid", metavar="PAIRS", help="count what these have in common with the corpus")
    command.add_argument("--test", metavar="PAIRS", help="count what these have in common with the corpus")
    add_columns(command)
    add_cleaning(command)
    command.add_argument("--json", action="store_true", help="one JSON object instead of a page")


def run_inspect_corpus(arguments: argparse.Namespace) -> Statistics | None:
    """Returns statistics for --json; otherwise prints the page. TrainingError for an unreadable corpus."""
    if (arguments.source is None) != (arguments.target is None):
        raise TrainingError("Give --source and --target together, or neither.")
    for option, code in (("--source", arguments.source), ("--target", arguments.target)):
        if code is not None and (problem := code_problem(code)):
            raise TrainingError(f"{option} {problem}" + "." * (not problem.endswith("?")))
    as_text = arguments.source is None and all(map(is_text, arguments.corpus))
    return _inspect_text(arguments) if as_text else _inspect_pairs(arguments)


def is_text(corpus: str) -> bool:
    """Whether a corpus without languages is a lyricist's text: a folder, a data set, JSON lines or a file of
    `TEXT_FORMATS`."""
    path, on_hub = Path(corpus), corpus.startswith(HUGGINGFACE_PREFIX)
    if not path.exists() and not on_hub:
        return "," not in corpus
    return path.is_dir() or on_hub or stem_suffix(path) in (*JSON_LINES, *TEXT_FORMATS)


def _inspect_text(arguments: argparse.Namespace) -> Statistics | None:
    try:
        text = "".join(read_text(corpus) for corpus in arguments.corpus)
    except TrainingError as error:
        missing = any(
            not corpus.startswith(HUGGINGFACE_PREFIX) and not Path(corpus).exists() for corpus in arguments.corpus
        )
        if missing:  # a wrong path, which says nothing about what the file would hold
            raise
        raise TrainingError(f"{error} {AS_PAIRS}") from error
    origin = " + ".join(arguments.corpus)
    if not text.strip():
        raise TrainingError(f"{origin} has no text.")
    statistics = text_statistics(text, origin)
    if arguments.json:
        return statistics
    print(*page_of_text(statistics), sep="\n")
    if all("\t" in line for line in text.splitlines() if line.strip()):
        print(f"\nEvery line holds a tab. {AS_PAIRS}")
    return None


def _inspect_pairs(arguments: argparse.Namespace) -> Statistics | None:
    languages = (arguments.source, arguments.target) if arguments.source else None
    raise_all(unknown_options(arguments))
    cleaning = assemble(TranslatorConfig(recipe=""), arguments.overrides).cleaning
    columns = parse_columns(arguments.columns)
    valid, test = (
        read_pairs(argument, languages, columns) if argument else None for argument in (arguments.valid, arguments.test)
    )
    pairs = read_corpora(arguments.corpus, languages, columns, skip_malformed=cleaning.malformed == "skip")
    pairs = clean(pairs, replace(cleaning, least_pairs=1), validation=valid, test=test)  # training needs more of them
    statistics = pair_statistics(pairs)
    if arguments.json:
        return statistics
    sides = dict(zip(("source", "target"), languages or ("source", "target"), strict=True))
    print(*page_of_pairs(statistics, pairs.reported(), sides), sep="\n")
    return None
