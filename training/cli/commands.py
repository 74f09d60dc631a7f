"""The commands of `python -m training`: for each one its parser, and beside it what it runs.

`distil` and `inspect-corpus` have modules of their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.cli import distil, inspect_corpus
from training.cli.command_options import (
    PAIRS,
    add_cleaning,
    add_columns,
    add_configuration,
    add_device,
    add_override,
    add_run,
    build_request,
    device_of,
    start_run,
)
from training.config.recipes import LYRICISTS, MEDIUM_TEXT, TRANSLATORS, Recipe, lyricist_for
from training.config.run_config import raise_all
from training.config.run_file import explained_config
from training.data.corpus_loading import parse_columns, read_run_corpora, read_text
from training.errors import TrainingError, pluralize
from training.evaluation.scores import MAX_BEAM_SIZE, Score, Scores, evaluate
from training.lyricist_run import train_lyricist
from training.translator_run import train_translator

if TYPE_CHECKING:
    from training.cli.command_options import Commands

REQUIRED = {"source_language": "--source", "target_language": "--target", "train": "--train"}
PENALTIES = "-10..10"


def add_translator(commands: Commands) -> None:
    command = commands.add_parser("translator", help="train a translator from pairs of sentences")
    command.set_defaults(run=run_translator)
    add_override(command, "--source", "source_language", "CODE", "source language code, such as de")
    add_override(command, "--target", "target_language", "CODE", "target language code, such as en")
    command.add_argument("--train", metavar="PAIRS", nargs="+", action="extend", help=PAIRS)
    command.add_argument("--valid", metavar="PAIRS", help="held-out pairs (default: a share of --train)")
    command.add_argument("--test", metavar="PAIRS", help="scored once, at the end, for the model card")
    add_columns(command)
    add_cleaning(command)
    add_configuration(command, TRANSLATORS, "tiny")
    text = "pieces of the SentencePiece vocabulary, at most"
    add_override(command, "--vocab-size", "tokenizer.vocab_size", "PIECES", text)
    add_override(command, "--tokens-per-batch", "tokens_per_batch", "TOKENS", "of the longer side, padding included")
    add_run(command)


def run_translator(arguments: argparse.Namespace) -> Scores:
    data = {name: getattr(arguments, name) for name in ("train", "valid", "test", "columns")}
    request = build_request(arguments, TRANSLATORS, "tiny", data, REQUIRED)
    config, workers = request.config, arguments.workers
    run = start_run(arguments, request)
    languages = (config.source_language, config.target_language)
    train, valid, test = read_run_corpora(request.data, languages, config.cleaning, config.loop.seed)
    workers.note("\n".join(train.reported().lines()))
    if valid is None:
        stated = any(text.partition("=")[0].strip() == "loop.choose_by" for text in arguments.set)
        if stated and config.loop.choose_by == "bleu":
            raise_all(["loop.choose_by = bleu needs held-out pairs: give --valid"])
        workers.note("Too few pairs to hold some out: nothing is validated, and the last weights are kept.")
    return train_translator(config, train, valid, run, test=test)


def add_lyrics(commands: Commands) -> None:
    command = commands.add_parser("lyrics", help="train a lyricist from a text")
    command.set_defaults(run=run_lyrics)
    command.add_argument("--corpus", metavar="CORPUS", help="a text file, a folder of .txt files, .jsonl, each .gz too")
    add_override(command, "--cell", "network.cell", "CELL", "rnn, gru or lstm (default: gru)")
    add_configuration(command, LYRICISTS, f"small, or medium from {MEDIUM_TEXT:,} characters on")
    add_override(command, "--batch-size", "batch_size", "WINDOWS", "windows of the text in a batch")
    add_override(command, "--bptt", "bptt", "CHARACTERS", "of a window, through which the gradient flows back")
    add_run(command)


def run_lyrics(arguments: argparse.Namespace) -> Scores:
    data, required = {"corpus": arguments.corpus}, {"corpus": "--corpus"}
    request = build_request(arguments, LYRICISTS, lyricist_for(0), data, required)
    run = start_run(arguments, request)
    corpus = str(request.data["corpus"])
    text = read_text(Path(corpus))
    # the length of the text chooses the recipe where none is named, so the configuration is built again
    config = build_request(arguments, LYRICISTS, lyricist_for(len(text)), data, required).config
    arguments.workers.note(f"Recipe {config.recipe}, a text of {pluralize(len(text), 'character')}.")
    return train_lyricist(config, text, run, origin=corpus)


def add_demo(commands: Commands) -> None:
    command = commands.add_parser("demo", help="train the demo models on the corpora that come with this project")
    command.set_defaults(run=run_demo)
    command.add_argument("--out", type=Path, default=Path("checkpoints"))
    command.add_argument("--only", choices=["demo-de-en", "demo-en-es", "lyrics-zh"], help="just this one")
    add_device(command)


def run_demo(arguments: argparse.Namespace) -> Mapping[str, Scores]:
    from training.demo.demo_models import train_demo  # the phrasebook takes a moment to build

    return train_demo(arguments.out, device_of(arguments), arguments.only)


def add_evaluate(commands: Commands) -> None:
    command = commands.add_parser("evaluate", help="score a model; the last line is one JSON object")
    command.set_defaults(run=run_evaluate)
    command.add_argument("folder", type=Path, help="the checkpoint folder")
    command.add_argument("--test", metavar="PAIRS", help=f"for translators: {PAIRS}")
    add_columns(command)
    command.add_argument("--corpus", type=Path, help="for lyricists: a text file")
    command.add_argument("--beam", type=int, help=f"for translators: 1 (greedy, the default) to {MAX_BEAM_SIZE}")
    text = f"for beams: a hypothesis' score is divided by its length to this power (default: 1), {PENALTIES}"
    command.add_argument("--length-penalty", type=float, metavar="POWER", help=text)
    add_device(command)


def run_evaluate(arguments: argparse.Namespace) -> Score:
    beam, penalty = arguments.beam, arguments.length_penalty
    problems = []
    if beam is not None and not 1 <= beam <= MAX_BEAM_SIZE:
        problems.append(f"--beam must be at least 1 and at most {MAX_BEAM_SIZE}, not {beam}")
    if penalty is not None and not -10 <= penalty <= 10:
        problems.append(f"--length-penalty must lie in {PENALTIES}, not {penalty}")
    if penalty is not None and (beam or 1) <= 1:
        problems.append("--length-penalty needs a --beam of at least 2")
    raise_all(problems)
    return evaluate(
        arguments.folder,
        test=arguments.test,
        columns=parse_columns(arguments.columns),
        corpus=arguments.corpus,
        beam=beam,
        length_penalty=penalty,
        device=device_of(arguments),
    )


def add_recipes(commands: Commands) -> None:
    command = commands.add_parser("recipes", help="list the recipes; --show prints all of one, as TOML for --config")
    command.set_defaults(run=run_recipes)
    command.add_argument("--show", metavar="NAME", help="such as tiny, or lyrics/small")


def run_recipes(arguments: argparse.Namespace) -> None:
    recipes: dict[str, Recipe[Any]] = {f"translator/{name}": recipe for name, recipe in TRANSLATORS.items()}
    recipes |= {f"lyrics/{name}": recipe for name, recipe in LYRICISTS.items()}
    if wanted := arguments.show:
        matches = [name for name in recipes if wanted in (name, name.partition("/")[2])]
        if not matches:
            raise TrainingError(f"There is no recipe {wanted!r}; there are {', '.join(recipes)}.")
        if len(matches) > 1:
            raise TrainingError(f"There are two recipes of that name: say {' or '.join(matches)}.")
        print(explained_config(recipes[matches[0]].config), end="")
        return
    for name, recipe in recipes.items():
        print(f"{name:<24} {recipe.summary}")
    print("\nAll options of one, explained: python -m training recipes --show NAME")


def add_import_marian(commands: Commands) -> None:
    text = "make a checkpoint from one of OPUS-MT or Marian in Hugging Face's form"
    command = commands.add_parser("import-marian", help=text)
    command.set_defaults(run=run_import_marian)
    command.add_argument("folder", metavar="FOLDER", help="a folder, or a name on the hub: Helsinki-NLP/opus-mt-de-en")
    command.add_argument("--out", required=True, type=Path, help="the checkpoint folder to write")
    command.add_argument("--source", help="source language code, such as de (default: as the folder says)")
    command.add_argument("--target", help="target language code, such as en (default: as the folder says)")
    command.add_argument(
        "--prefix",
        help="of a model with several target languages: the token for one, such as '>>deu<<'"
        " (default: the one that means --target); none: each text starts with its own",
    )


def run_import_marian(arguments: argparse.Namespace) -> Mapping[str, object]:
    from training.importers.marian.convert_checkpoint import import_marian

    languages = {name: getattr(arguments, name) for name in ("source", "target", "prefix")}
    return import_marian(arguments.folder, arguments.out, **languages)


ADD_PARSERS: tuple[Callable[[Commands], None], ...] = (
    add_translator,
    add_lyrics,
    add_demo,
    add_evaluate,
    distil.add_parser,
    add_recipes,
    inspect_corpus.add_parser,
    add_import_marian,
)
"""In the order of the help text."""
