"""The `import-marian` command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

NAME = "import-marian"


def add_parser(commands: _Commands) -> None:
    """The command and its options, to the parser of `training`."""
    command = commands.add_parser(NAME, help="make a checkpoint from one of OPUS-MT or Marian in Hugging Face's form")
    command.set_defaults(run=run)
    command.add_argument("folder", metavar="FOLDER", help="a folder, or a name on the hub: Helsinki-NLP/opus-mt-de-en")
    command.add_argument("--out", required=True, type=Path, help="the checkpoint folder to write")
    command.add_argument("--source", help="source language code, such as de (default: as the folder says)")
    command.add_argument("--target", help="target language code, such as en (default: as the folder says)")
    command.add_argument(
        "--prefix",
        help="of a model with several target languages: the token for one, such as '>>deu<<'"
        " (default: the one that means --target); none: each text starts with its own",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    from training.importers.marian.convert_checkpoint import Choice, import_marian

    choice = Choice(source=arguments.source, target=arguments.target, prefix=arguments.prefix)
    return import_marian(arguments.folder, arguments.out, choice)
