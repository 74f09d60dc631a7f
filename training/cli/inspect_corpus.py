"""The `inspect-corpus` command: what training would find in a corpus, without training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from training.cli.command_options import PAIRS, add_cleaning, add_columns, cleaning_of
from training.data.cleaning import clean
from training.data.corpus_loading import (
    HUGGINGFACE_PREFIX,
    JSON_LINES,
    parse_columns,
    read_corpora,
    read_pairs,
    read_text,
    stem_suffix,
)
from training.data.corpus_statistics import Statistics, page_of_pairs, page_of_text, pair_statistics, text_statistics
from training.errors import TrainingError

if TYPE_CHECKING:
    from training.cli.command_options import Commands

AS_PAIRS = "To read pairs of texts, give --source and --target."


def add_parser(commands: Commands) -> None:
    command = commands.add_parser("inspect-corpus", help="say what is in a corpus, and train nothing")
    command.set_defaults(run=run)
    command.add_argument("corpus", nargs="+", help=f"pairs: {PAIRS}; or a text or a folder of texts")
    command.add_argument("--source", help="source language code; with --target the corpus is read as pairs")
    command.add_argument("--target", help="target language code")
    command.add_argument("--valid", metavar="PAIRS", help="count what these have in common with the corpus")
    command.add_argument("--test", metavar="PAIRS", help="count what these have in common with the corpus")
    add_columns(command)
    add_cleaning(command)
    command.add_argument("--subwords", type=int, metavar="SIZE", help="also fit a vocabulary and count its subwords")
    command.add_argument("--json", action="store_true", help="one JSON object instead of a page")


def run(arguments: argparse.Namespace) -> Statistics | None:
    """The facts for --json; otherwise the page is printed. TrainingError for a corpus that cannot be read."""
    if (arguments.source is None) != (arguments.target is None):
        raise TrainingError("Give --source and --target together, or neither.")
    if arguments.subwords is not None and arguments.subwords < 1:
        raise TrainingError(f"--subwords must be at least 1, not {arguments.subwords}.")
    if arguments.source is None and all(map(is_text, arguments.corpus)):
        return _inspect_text(arguments)
    return _inspect_pairs(arguments)


def is_text(corpus: str) -> bool:
    """Without languages, is it a text for a lyricist? A folder, a data set, and what is called neither .tsv nor .tmx
    nor like two files are."""
    path = Path(corpus)
    if not path.exists() and not corpus.startswith(HUGGINGFACE_PREFIX):
        return "," not in corpus
    return (
        path.is_dir()
        or corpus.startswith(HUGGINGFACE_PREFIX)
        or stem_suffix(path) in (*JSON_LINES, ".txt", ".text", "")
    )


def _inspect_text(arguments: argparse.Namespace) -> Statistics | None:
    try:
        text = "".join(read_text(corpus) for corpus in arguments.corpus)
    except TrainingError as error:
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
    columns, cleaning = parse_columns(arguments.columns), cleaning_of(arguments.clean)
    valid, test = (
        read_pairs(argument, languages, columns) if argument else None for argument in (arguments.valid, arguments.test)
    )
    pairs = clean(read_corpora(arguments.corpus, languages, columns), cleaning, validation=valid, test=test)
    statistics = pair_statistics(pairs, arguments.subwords)
    if arguments.json:
        return statistics
    sides = dict(zip(("source", "target"), languages or ("source", "target"), strict=True))
    print(*page_of_pairs(statistics, pairs.reported(), sides), sep="\n")
    return None
