"""The `recipes` command."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from training.config import recipes
from training.config.run_config import LyricsConfig, TranslatorConfig
from training.config.run_file import explained_config
from training.errors import TrainingError

Recipe = Callable[[], TranslatorConfig | LyricsConfig]


def add_parser(commands: Any) -> None:
    command = commands.add_parser("recipes", help="list the recipes; --show prints all of one, as TOML for --config")
    command.set_defaults(run=run)
    command.add_argument("--show", metavar="NAME", help="such as tiny, or lyrics/small")


def run(arguments: argparse.Namespace) -> None:
    if arguments.show:
        print(explained_config(_named(arguments.show)()), end="")
        return
    for name, recipe in _all():
        said = " ".join((inspect.getdoc(recipe) or "").partition("\n\n")[0].split())
        print(f"{name:<24} {said}")
    print("\nAll options of one, explained: python -m training recipes --show NAME")


def _all() -> Iterator[tuple[str, Recipe]]:
    yield from ((f"translator/{name}", recipe) for name, recipe in recipes.TRANSLATORS.items())
    yield from ((f"lyrics/{name}", recipe) for name, recipe in recipes.LYRICISTS.items())


def _named(wanted: str) -> Recipe:
    """A recipe by its name, or by its command and name where both commands have one of that name."""
    found = {name: recipe for name, recipe in _all() if wanted in (name, name.partition("/")[2])}
    if not found:
        raise TrainingError(f"There is no recipe {wanted!r}; there are {', '.join(name for name, _ in _all())}.")
    if len(found) > 1:
        raise TrainingError(f"There are two recipes of that name: say {' or '.join(found)}.")
    return next(iter(found.values()))
