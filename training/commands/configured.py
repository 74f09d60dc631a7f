"""What the options of a training command come to: one configuration, or all that is wrong in one list."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Mapping, Sequence

from training import events
from training.commands.options import unknown_options
from training.configuration import run_file
from training.configuration.assembly import Config, Statement, assemble, statements
from training.configuration.run_file import Named, RunFile

NO_END = 10_000  # epochs: a time limit replaces the recipe's number, unless that is given as well


def configured(
    arguments: argparse.Namespace,
    recipes: Mapping[str, Callable[[], Config]],
    default: str,
    data: Mapping[str, Named | None],
    needed: Mapping[str, str],
    more: Sequence[Statement] = (),
    wrong_before: Sequence[str] = (),
) -> tuple[Config, dict[str, Named], RunFile]:
    """The configuration, the data by role, and the file of --config. data: role -> what the command line names;
    needed: key or role -> the option that gives it; more: what other options state; wrong_before: and what is wrong
    with them."""
    file = run_file.read(arguments.config, arguments.command) if arguments.config else RunFile()
    pairs = [(text, *text.partition("=")) for text in arguments.set]
    stated = [
        *statements(file.options, file.name),
        *arguments.overrides,
        *more,
        *(Statement(key.strip(), value.strip(), "--set", is_text=True) for _, key, sign, value in pairs if sign),
    ]
    found = {role: named or file.located(role) for role, named in data.items()}
    problems = [*unknown_options(arguments), *wrong_before]
    if arguments.processes < 1:
        problems.append(f"--processes must be at least 1, not {arguments.processes}")
    problems += [f"--set {text} lacks its =: write KEY=VALUE" for text, _, sign, _ in pairs if not sign]
    problems += file.problems(data)
    problems += events.problems() if arguments.tensorboard else []
    stated_keys = {s.key for s in stated}
    problems += [f"{option} is missing" for key, option in needed.items() if not (key in stated_keys or found.get(key))]
    problems += ["--out is missing"] * (arguments.out is None)
    base, wrong = _base(recipes, default, stated, file)
    if not file.complete and "loop.max_minutes" in stated_keys and "loop.max_epochs" not in stated_keys:
        stated.append(Statement("loop.max_epochs", NO_END, "--max-minutes"))
    config = assemble(base, [s for s in stated if s.key != "recipe"], [*problems, *wrong])
    return config, {role: named for role, named in found.items() if named}, file


def _base(
    recipes: Mapping[str, Callable[[], Config]], default: str, stated: Sequence[Statement], file: RunFile
) -> tuple[Config, list[str]]:
    """What is not stated comes from here: the recipe, or neutral defaults under a file that is complete."""
    names = [s for s in stated if s.key == "recipe"]
    name = names[-1].value if names else default
    if file.complete:
        kind, recorded = type(recipes[default]()), file.options.get("recipe", "")
        wrong = f"--recipe {name} contradicts {file.name}, which states all options of recipe {recorded}"
        return kind(recipe=str(recorded)), [wrong] if name != recorded else []
    if isinstance(name, str) and name in recipes:
        return recipes[name](), []
    near = difflib.get_close_matches(str(name), recipes, 1)
    hint = f", did you mean {near[0]}?" if near else ""
    return recipes[default](), [f"recipe must be one of {', '.join(sorted(recipes))}, not {name!r}{hint}"]
