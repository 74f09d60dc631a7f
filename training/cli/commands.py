"""The commands of `python -m training`, and what an unknown command or option may have meant.

`foreign_names.toml` holds what other programs call ours."""

from __future__ import annotations

import argparse
import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module, resources

AddOptions = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], Mapping[str, object] | None]
COMMANDS = {
    "translator": ("train a translator from pairs of sentences", "train_commands"),
    "lyrics": ("train a lyricist from a text", "train_commands"),
    "evaluate": ("score a model, or compare several; the last line is JSON", "evaluate_command"),
    "translate": ("translate files, or standard input, line by line", "translate_command"),
    "distil": ("have a translator translate pairs or text for another one to learn from", "distil_command"),
    "recipes": ("list the recipes; --show prints all of one, as TOML for --config", "train_commands"),
    "inspect-corpus": ("say which pairs of a corpus training would leave out, and why", "inspect_command"),
    "import-marian": ("make a checkpoint from one of OPUS-MT or Marian in Hugging Face's form", "conversion_commands"),
    "export": ("write a checkpoint in the form of transformers, CTranslate2 or ONNX", "conversion_commands"),
}
"""Command -> what it does, and its module of this package, which has `add_COMMAND` and `run_COMMAND`; in the order of
the help text."""


def functions_of(command: str) -> tuple[AddOptions, Run]:
    """What adds the options of a command to its parser, and what runs it. Imports only the module of this command."""
    module, name = import_module(f"{__package__}.{COMMANDS[command][1]}"), command.replace("-", "_")
    return getattr(module, f"add_{name}"), getattr(module, f"run_{name}")


def _by_foreign_name(table: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {foreign: own for own, names in table.items() for foreign in names}


_FOREIGN = tomllib.loads((resources.files(__package__) / "foreign_names.toml").read_text("utf-8"))
FOREIGN_COMMANDS = _by_foreign_name(_FOREIGN["commands"])
"""Another trainer's command -> what it is called here."""
FOREIGN_FORMS = _by_foreign_name(_FOREIGN["forms"])
"""What another program calls a form of `export --to` -> its name here."""
_TRAINING = _by_foreign_name(_FOREIGN["training"])
OWN_NAMES = {
    "translator": _TRAINING | _by_foreign_name(_FOREIGN["translator"]),
    "lyrics": _TRAINING | _by_foreign_name(_FOREIGN["lyrics"]),
    "translate": _by_foreign_name(_FOREIGN["translate"]),
}
"""Command -> another program's option -> what it is called here."""


def command_suggestion(name: str, known: Sequence[str]) -> str:
    """As `suggestion`, of a command."""
    spelled = name.replace("_", "-").lower()
    near = [spelled] if spelled in known else difflib.get_close_matches(spelled, known, 1, 0.75)
    own = FOREIGN_COMMANDS.get(spelled) or (near[0] if near else None)
    return "" if own is None else f", did you mean {own}?"


def suggestion(command: str, name: str, known: Sequence[str]) -> str:
    """What follows "NAME is no option": ", did you mean ...?", or "". Underscores count as hyphens. known: all options
    of the command."""
    spelled = name.replace("_", "-")
    if spelled in known:
        return f", did you mean {spelled}?"
    names = OWN_NAMES.get(command, {})
    own = names.get(spelled) or names.get(spelled.lower())
    if own is None:
        # foreign names closely: "--lora" is no misspelt "--load"
        near = difflib.get_close_matches(spelled, known, 1, 0.75) or difflib.get_close_matches(spelled, names, 1, 0.9)
        own = names.get(near[0], near[0]) if near else None
    return "" if own is None else f", did you mean {own}?"


def unknown_options(arguments: argparse.Namespace) -> Iterator[str]:
    """A sentence for each unknown argument, with the closest known option."""
    options = [argument for argument in arguments.unknown if argument.startswith("-")]
    for option in options:
        name = option.partition("=")[0]
        yield f"{name} is no option{suggestion(arguments.command, name, arguments.known)}"
    if arguments.unknown and not options:
        yield f"{' '.join(arguments.unknown)} belongs to no option"
