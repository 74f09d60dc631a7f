"""Options shared by several commands, and the configuration and device that they select."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Generic

import torch

from models.backends.torch.cuda_report import cuda_report
from models.model_names import shipped_folder
from models.tokenizer import Tokenizer
from training import output_folder
from training.cli.commands import unknown_options
from training.config.options import explained
from training.config.overrides import Override, assemble, did_you_mean, options_of, table_overrides
from training.config.recipes import Recipe
from training.config.run_config import NO_CLEANING, CleaningConfig, Config, TranslatorConfig
from training.config.run_file import CorpusArgument, RunFile, Table, read_run_file
from training.data.tokenizer_training import read_tokenizers, tokenizer_digest
from training.distributed.process_group import Workers
from training.errors import TrainingError, raise_all
from training.starting_point import (
    Kind,
    StartingPoint,
    adapted,
    contradictions,
    has_kept,
    known_languages,
    read_kept,
    read_starting_point,
    tokenizer_contradictions,
    with_tokenizers,
    without_start,
)
from training.training_run import TrainingRun

PAIRS = (
    "SOURCE,TARGET (two files) or one file: tab-separated, .csv, .jsonl, .tmx, each .gz too; or"
    " hf:NAME[:CONFIG][:SPLIT]"
)
RULES = ", ".join(rule.name.replace("_", "-") for rule in fields(CleaningConfig))
"""Options of other trainers -> ours."""
MOST_THREADS = 1024
NO_END = 10_000  # epochs: from nothing, a time limit without a number of epochs replaces the recipe's number


def model_folder(given: str) -> Path:
    """The checkpoint folder that an argument names; of a model that comes with this project, its name is enough."""
    return Path(given) if Path(given).exists() else shipped_folder(given) or Path(given)


def add_configuration(
    command: argparse.ArgumentParser, recipes: Mapping[str, Recipe[Config]], default: str, network: Mapping[str, str]
) -> None:
    """The recipe, and the options of the configuration that have one of the command line (`config.options.option`).
    default: of the recipe, for the help. network: key of an option of the network -> its option and value here."""
    text = f"{', '.join(sorted(recipes))} (default: {default}); see `recipes`"
    _add_override(command, "recipe", "--recipe NAME", text, is_switch=False)
    command.add_argument("--config", type=Path, metavar="FILE", help="options from a TOML file, such as a run.toml")
    kind = type(next(iter(recipes.values())).config)
    for key, field in options_of(kind).items():
        extra = field.json_schema_extra
        flag = str(extra["flag"]) if isinstance(extra, dict) else network.get(key)
        if flag:
            _add_override(command, key, flag, explained(field), is_switch=field.annotation is bool)
    text = "any option of the configuration, such as optimizer.weight_decay=0.1; see `recipes --show NAME`"
    command.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=text)


def _add_override(command: argparse.ArgumentParser, key: str, flag: str, text: str, *, is_switch: bool) -> None:
    """Values are parsed later, so that all problems are reported at once."""
    option, _, metavar = flag.partition(" ")
    common: dict[str, Any] = {"dest": "overrides", "default": [], "help": text}
    if is_switch:
        command.add_argument(option, action="append_const", const=Override(key, True, option), **common)
    else:
        parse = partial(Override, key, origin=option, is_text=True)
        command.add_argument(option, action="append", type=parse, metavar=metavar, **common)


def add_start(command: argparse.ArgumentParser) -> None:
    text = "train a model further: its folder, a Marian folder, or a name on the hub such as Helsinki-NLP/opus-mt-de-en"
    command.add_argument("--from", dest="start_from", metavar="FOLDER", help=text)


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, help="the checkpoint folder to write")
    command.add_argument("--resume", action="store_true", help="continue the unfinished run in --out")
    command.add_argument("--licence", metavar="TEXT", help="of the model, for its card, such as cc-by-4.0")
    command.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="share the run among N processes of this machine: one for each GPU, or for each core of a small CPU, where"
        " they are faster than threads; every one does its part of each batch. torchrun does it for several machines:"
        " docs/training.md has its command",
    )
    add_device(command)


def add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    command.add_argument("--threads", type=int, help="CPU threads (default: all cores)")


def add_columns(command: argparse.ArgumentParser) -> None:
    command.add_argument("--columns", metavar="N,M", help="of tab-separated files: source and target column, from 1")


def add_cleaning(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--clean",
        metavar="RULE=VALUE",
        action="extend",
        dest="overrides",
        default=[],
        type=cleaning_overrides,
        help=f"set a rule or switch it off: ratio=6, duplicates=off; off: no rule at all; the rules: {RULES}",
    )


def device_of(arguments: argparse.Namespace, recorded: Table | None = None) -> torch.device:
    """The selected device. recorded: device and threads of a repeated run; the command line overrides them."""
    recorded = recorded or {}
    device = recorded.get("device", "auto") if arguments.device == "auto" else arguments.device
    threads = recorded.get("threads") if arguments.threads is None else arguments.threads
    if threads is not None:
        most = max(MOST_THREADS, os.cpu_count() or 1)
        bound = f"at least 1, not {threads}" if threads < 1 else f"at most {most:,}" if threads > most else ""
        raise_all([f"--threads must be {bound}" if bound else ""])
        torch.set_num_threads(threads)
    if device == "cuda" and not torch.cuda.is_available():
        raise TrainingError(
            f"There is no CUDA device here: {cuda_report().problem}; use --device cpu or --device auto."
        )
    workers: Workers = arguments.workers
    return workers.device("cuda" if torch.cuda.is_available() and device != "cpu" else "cpu")


@dataclass(frozen=True, slots=True)
class RunRequest(Generic[Config]):
    """A requested run. data: role -> corpus. machine: of the run file. start: of a run with --from.
    tokenizers: of a run with --tokenizer."""

    config: Config
    data: Mapping[str, CorpusArgument]
    machine: Table
    start: StartingPoint | None = None
    tokenizers: Mapping[str, Tokenizer] | None = None


def start_run(arguments: argparse.Namespace, request: RunRequest[Config]) -> TrainingRun:
    """Checks `--out` and the device before any corpus is read; raises TrainingError if the run cannot use them."""
    device, workers = device_of(arguments, request.machine), arguments.workers
    if workers.writes:
        output_folder.check_output_folder(arguments.out, resume=arguments.resume)
    options = {name: getattr(arguments, name) for name in ("out", "resume", "workers", "licence")}
    return TrainingRun(device=device, data=request.data, started=arguments.started, **options)


def read_start(arguments: argparse.Namespace, kind: Kind) -> StartingPoint | None:
    """The model of --from, or of the run file, or the copy that an unfinished run keeps. TrainingError if it cannot be
    read, or if it is of another kind, and before anything is read or fetched if an option is unknown."""
    given, out, workers = arguments.start_from, arguments.out, arguments.workers
    several = getattr(arguments, "multilingual", False)
    if arguments.config:
        file = read_run_file(arguments.config, arguments.command)
        given, several = given or file.located("from"), several or "multilingual" in file.options
    if given is not None and not isinstance(given, str):
        raise TrainingError(f"data.from must be a text, not {given!r} ({arguments.config}).")
    if given is not None:  # reading it takes seconds, and fetching it minutes
        raise_all([*unknown_options(arguments), "--out is missing" if out is None else ""])
    languages = {
        override.key: str(override.value)
        for override in arguments.overrides
        if override.key in ("source_language", "target_language")
    }
    pair = languages.get("source_language"), languages.get("target_language")

    def read() -> StartingPoint | None:
        if arguments.resume and out is not None and has_kept(out):
            return read_kept(out, given)
        return read_starting_point(given, kind, *pair, several=several) if given else None

    start: StartingPoint | None = workers.on_rank_0(read)
    return start


def build_request(
    arguments: argparse.Namespace,
    recipes: Mapping[str, Recipe[Config]],
    default: str,
    data: Mapping[str, CorpusArgument | None],
    required: Mapping[str, str],
    start: StartingPoint | None = None,
) -> RunRequest[Config]:
    """Merges recipe, --config, options and --set into a configuration. Raises CannotStart with every problem.

    data: role -> corpus from the command line, None if the run file names it. required: key or role -> its option.
    start: of --from; its network, tokenizer and languages replace those of the recipe."""
    file = read_run_file(arguments.config, arguments.command) if arguments.config else RunFile()
    pairs = [(text, *text.partition("=")) for text in arguments.set]
    overrides = [
        *table_overrides(file.options, file.name),
        *arguments.overrides,
        *(Override(key.strip(), value.strip(), "--set", is_text=True) for _, key, sign, value in pairs if sign),
    ]
    corpora = {role: named or file.located(role) for role, named in data.items()}
    problems = list(unknown_options(arguments))
    if arguments.processes < 1:
        problems.append(f"--processes must be at least 1, not {arguments.processes}")
    problems += [f"--set {text} lacks its =: write KEY=VALUE" for text, _, sign, _ in pairs if not sign]
    problems += file.problems(data)
    keys = {override.key for override in overrides}
    keys |= known_languages(start) if start else set()
    if "mix" in data and not corpora.get("mix"):
        problems += _share_without_mix(overrides)
    problems += [f"{option} is missing" for key, option in required.items() if not (key in keys or corpora.get(key))]
    problems += ["--out is missing"] * (arguments.out is None)
    base, recipe_problems = _base_config(recipes, default, overrides, file)
    base = base if start is None else adapted(base, start)
    tokenizers, tokenizer_config = None, None
    if isinstance(named := corpora.get("tokenizer"), str):
        tokenizers, recorded = arguments.workers.on_rank_0(lambda: read_tokenizers(named))
        if start is None:
            base = with_tokenizers(base, tokenizers, recorded)
            tokenizer_config = getattr(base, "tokenizer", None)
        elif tokenizer_digest(tokenizers) != tokenizer_digest(start.tokenizers):
            problems.append(f"--tokenizer {named} is not the tokenizer of --from {start.given}: leave it out")
    # a new network learns from a small corpus for more epochs than its recipe has, if there is time; a trained one
    # forgets what it knew
    if start is None and not file.complete and "loop.max_minutes" in keys and "loop.max_epochs" not in keys:
        overrides.append(Override("loop.max_epochs", NO_END, "--max-minutes"))
    overrides = [override for override in overrides if override.key != "recipe"]
    config = assemble(base, overrides, [*problems, *recipe_problems])
    raise_all(contradictions(config, start) if start else without_start(config))
    if start:
        start.check_frozen(config.tuning.frozen)
    if tokenizers is not None and tokenizer_config is not None and isinstance(config, TranslatorConfig):
        option = f"--tokenizer {corpora['tokenizer']}"
        raise_all(tokenizer_contradictions(config.tokenizer, tokenizer_config, option))
    given = {role: named for role, named in corpora.items() if named}
    return RunRequest(config, given, file.machine, start, tokenizers)


def _share_without_mix(overrides: Sequence[Override]) -> Iterator[str]:
    """A complete run file states the default."""
    default = options_of(TranslatorConfig)["tuning.mix_share"].default
    for override in overrides:
        if override.key == "tuning.mix_share" and (override.is_text or override.value != default):
            yield f"tuning.mix_share needs --mix, the general pairs ({override.origin})"


def _base_config(
    recipes: Mapping[str, Recipe[Config]], default: str, overrides: Sequence[Override], file: RunFile
) -> tuple[Config, list[str]]:
    """The defaults below the overrides: a recipe, or neutral defaults if the file is complete."""
    names = [override.value for override in overrides if override.key == "recipe"]
    name = names[-1] if names else default
    base = recipes[default].config
    if file.complete:
        recipe = file.options.get("recipe", "")
        problem = f"--recipe {name} contradicts {file.name}, which states all options of recipe {recipe}"
        return type(base)(recipe=str(recipe)), [problem] if name != recipe else []
    if isinstance(name, str) and name in recipes:
        return recipes[name].config, []
    suggestion = did_you_mean(difflib.get_close_matches(str(name), recipes, 1))
    return base, [f"recipe must be one of {', '.join(sorted(recipes))}, not {name!r}{suggestion}"]


def cleaning_overrides(setting: str) -> list[Override]:
    """What a setting of --clean says, of one rule or of all."""
    rule, _, value = setting.partition("=")
    if setting == "off":
        return [Override(f"cleaning.{name}", off, "--clean") for name, off in asdict(NO_CLEANING).items()]
    return [Override(f"cleaning.{rule.replace('-', '_')}", value, "--clean", is_text=True)]
