"""python -m training translator"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from training import recipes
from training.commands.options import add_run, device_of, loop_of
from training.config import raise_all
from training.corpora import options
from training.translator import train_translator


def add_parser(commands: Any) -> None:
    command = commands.add_parser("translator", help="train a translator from pairs of sentences")
    command.set_defaults(run=run)
    command.add_argument("--source", required=True, help="source language code, such as de")
    command.add_argument("--target", required=True, help="target language code, such as en")
    command.add_argument("--train", required=True, metavar="PAIRS", nargs="+", action="extend", help=options.PAIRS)
    command.add_argument("--valid", metavar="PAIRS", help="held-out pairs (default: a share of --train)")
    command.add_argument("--test", metavar="PAIRS", help="scored once, at the end, for the model card")
    options.add_columns(command)
    options.add_cleaning(command)
    command.add_argument("--recipe", choices=sorted(recipes.TRANSLATORS), default="tiny")
    command.add_argument("--vocabulary", type=int, help="pieces of the SentencePiece vocabulary, at most")
    add_run(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    raise_all(language_problems(arguments))
    config = recipes.TRANSLATORS[arguments.recipe]()
    tokenizer = config.tokenizer
    if arguments.vocabulary is not None:
        tokenizer = replace(tokenizer, size=arguments.vocabulary)
    config = replace(
        config,
        source_language=arguments.source,
        target_language=arguments.target,
        tokenizer=tokenizer,
        loop=loop_of(config.loop, arguments),
        cleaning=options.cleaning_of(arguments.clean),
    )
    device = device_of(arguments)
    train, valid, test = options.read_run(arguments, config.cleaning, config.loop.seed)
    return train_translator(
        config,
        train,
        valid,
        out=arguments.out,
        device=device,
        test=test,
        resume=arguments.resume,
        workers=arguments.workers,
    )


def language_problems(arguments: argparse.Namespace) -> Iterator[str]:
    """A model whose languages nobody can ask for would be trained for nothing."""
    for name in ("source", "target"):
        code = getattr(arguments, name)
        if not re.fullmatch(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*", code) or code.lower() == "auto":
            yield f"--{name} must be a language code such as de or pt-BR, not {code!r}"
