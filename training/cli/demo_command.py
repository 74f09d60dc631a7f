"""The `demo` command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from training.cli.command_options import add_device, device_of


def add_parser(commands: Any) -> None:
    command = commands.add_parser("demo", help="train the demo models on the corpora that come with this project")
    command.set_defaults(run=run)
    command.add_argument("--out", type=Path, default=Path("checkpoints"))
    command.add_argument("--only", choices=["demo-de-en", "demo-en-es", "lyrics-zh"], help="just this one")
    add_device(command)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    from training.demo.demo_models import train_demo  # the phrasebook takes a moment to build

    return train_demo(arguments.out, device_of(arguments), arguments.only)
