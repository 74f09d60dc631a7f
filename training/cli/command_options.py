"""Options that several commands share, and the configuration that they come to."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from training import output_folder
from training.config import run_file
from training.config.overrides import Config, Override, assemble, statements
from training.config.overrides import Override as Statement
from training.config.run_config import NO_CLEANING, CleaningConfig, raise_all
from training.config.run_file import CorpusArgument, RunFile
from training.data.cleaning import clean, hold_out
from training.data.corpus_loading import parse_columns, read_corpora, read_pairs
from training.data.sentence_pairs import Pairs
from training.distributed.process_group import Workers
from training.errors import TrainingError
from training.report import progress_report

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
                NO_CLEANING
                if setting == "off"
                else replace(config, **{name.replace("-", "_"): _rule_value(name, value)})
            )
        except ValueError as error:
            problems.append(str(error))
    raise_all([*problems, *config.problems()])
    return config


def _rule_value(name: str, value: str) -> Any:
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
    languages, columns = (arguments.source, arguments.target), parse_columns(arguments.columns)
    valid, test = (
        read_pairs(argument, languages, columns) if argument else None for argument in (arguments.valid, arguments.test)
    )
    train = clean(read_corpora(arguments.train, languages, columns), cleaning, validation=valid, test=test)
    if valid is None:
        train, valid = hold_out(train, seed)
    return train, valid, test


class OverrideAction(argparse.Action):
    """An option that states one key of the configuration. It stays a text here: what is wrong with it is told
    together with all the rest."""

    def __init__(self, *arguments: Any, key: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.key = key

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        namespace.overrides = [*namespace.overrides, Statement(self.key, values, option_string, is_text=True)]


def add_override(command: argparse.ArgumentParser, option: str, key: str, metavar: str, text: str) -> None:
    command.add_argument(
        option, action=OverrideAction, key=key, dest="overrides", default=(), metavar=metavar, help=text
    )


def add_configuration(command: argparse.ArgumentParser, recipes: Mapping[str, Any], default: str) -> None:
    names = ", ".join(sorted(recipes))
    add_override(command, "--recipe", "recipe", "NAME", f"{names} (default: {default}); see `recipes`")
    command.add_argument("--config", type=Path, metavar="FILE", help="options from a TOML file, such as a run.toml")
    text = "any option of the configuration, such as optimizer.rate=1e-3; see `recipes --show NAME`"
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=text)


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, help="the checkpoint folder to write")
    add_override(command, "--max-minutes", "loop.max_minutes", "MINUTES", "stop after so long")
    add_override(command, "--max-epochs", "loop.max_epochs", "EPOCHS", "stop after so many passes over the corpus")
    add_override(command, "--seed", "loop.seed", "SEED", "of every random choice (default: 1)")
    command.add_argument("--resume", action="store_true", help="go on where an earlier run of --out stands")
    command.add_argument("--licence", metavar="TEXT", help="of the model, for its card, such as cc-by-4.0")
    command.add_argument("--tensorboard", action="store_true", help="write TensorBoard events into --out/events")
    command.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="share the run among N processes of this machine: one for each GPU, or for each core of a small CPU, where"
        " they are faster than threads; every one does its part of each batch. torchrun does it for several machines:"
        " torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 -m training ...",
    )
    add_device(command)
    command.set_defaults(known=[option for action in command._actions for option in action.option_strings])


def unknown_options(arguments: argparse.Namespace) -> Iterator[str]:
    """What the parser has not understood, each with the nearest option that it would have."""
    for given in arguments.unknown:
        name = given.partition("=")[0]
        near = difflib.get_close_matches(name, arguments.known, 1, 0.75)
        if given.startswith("-"):
            yield f"{name} is no option" + (f", did you mean {near[0]}?" if near else "")
    if arguments.unknown and not any(given.startswith("-") for given in arguments.unknown):
        yield f"nothing is to be done with {' '.join(arguments.unknown)}"


def check_out(arguments: argparse.Namespace) -> None:
    """Before a large corpus is read for nothing; TrainingError if the run may not write there."""
    if arguments.workers.writes:
        output_folder.check_output_folder(arguments.out, resume=arguments.resume)


def add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    command.add_argument("--threads", type=int, help="CPU threads (default: all cores)")


def device_of(arguments: argparse.Namespace, recorded: Mapping[str, Any] | None = None) -> torch.device:
    """recorded: the device and threads of a run that is to be repeated; the command line goes first."""
    recorded = recorded or {}
    device = recorded.get("device", "auto") if arguments.device == "auto" else arguments.device
    threads = recorded.get("threads") if arguments.threads is None else arguments.threads
    if threads is not None:
        raise_all([f"--threads must be at least 1, not {threads}" if threads < 1 else ""])
        torch.set_num_threads(threads)
    if device == "cuda" and not torch.cuda.is_available():
        raise TrainingError("There is no CUDA device here; use --device cpu or --device auto.")
    workers: Workers = arguments.workers
    return workers.device("cuda" if torch.cuda.is_available() and device != "cpu" else "cpu")


NO_END = 10_000  # epochs: a time limit replaces the recipe's number, unless that is given as well


def build_config(
    arguments: argparse.Namespace,
    recipes: Mapping[str, Callable[[], Config]],
    default: str,
    data: Mapping[str, CorpusArgument | None],
    needed: Mapping[str, str],
    more: Sequence[Override] = (),
    wrong_before: Sequence[str] = (),
) -> tuple[Config, dict[str, CorpusArgument], RunFile]:
    """The configuration, the data by role, and the file of --config. data: role -> what the command line names;
    needed: key or role -> the option that gives it; more: what other options state; wrong_before: and what is wrong
    with them."""
    file = run_file.read_run_file(arguments.config, arguments.command) if arguments.config else RunFile()
    pairs = [(text, *text.partition("=")) for text in arguments.set]
    stated = [
        *statements(file.options, file.name),
        *arguments.overrides,
        *more,
        *(Override(key.strip(), value.strip(), "--set", is_text=True) for _, key, sign, value in pairs if sign),
    ]
    found = {role: named or file.located(role) for role, named in data.items()}
    problems = [*unknown_options(arguments), *wrong_before]
    if arguments.processes < 1:
        problems.append(f"--processes must be at least 1, not {arguments.processes}")
    problems += [f"--set {text} lacks its =: write KEY=VALUE" for text, _, sign, _ in pairs if not sign]
    problems += file.problems(data)
    problems += progress_report.tensorboard_problems() if arguments.tensorboard else []
    stated_keys = {s.key for s in stated}
    problems += [f"{option} is missing" for key, option in needed.items() if not (key in stated_keys or found.get(key))]
    problems += ["--out is missing"] * (arguments.out is None)
    base, wrong = _base(recipes, default, stated, file)
    if not file.complete and "loop.max_minutes" in stated_keys and "loop.max_epochs" not in stated_keys:
        stated.append(Override("loop.max_epochs", NO_END, "--max-minutes"))
    config = assemble(base, [s for s in stated if s.key != "recipe"], [*problems, *wrong])
    return config, {role: named for role, named in found.items() if named}, file


def _base(
    recipes: Mapping[str, Callable[[], Config]], default: str, stated: Sequence[Override], file: RunFile
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
