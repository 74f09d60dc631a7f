"""How the user started training: as `python -m training` or by the console command `parlance`. Messages that contain a
command spell it that way, so that it can be copied."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

MODULE = "python -m training"
CONSOLE = "parlance"
CONSOLE_WORDS = {
    "translator": ["train", "translator"],
    "lyrics": ["train", "lyrics"],
    "demo": ["train", "demo"],
    "import-marian": ["import"],
}
"""A command of `python -m training` -> the words of `parlance`, where they differ."""


def program() -> str:
    """ "parlance" in a process that the console command or `python -m parlance` has started, or else
    "python -m training"."""
    started = Path(sys.argv[0])
    name = started.parent.name if started.name == "__main__.py" else started.stem
    return CONSOLE if name == CONSOLE else MODULE


def command_line(command: str, *arguments: str) -> str:
    """command: of `python -m training`. The arguments are quoted for a shell."""
    words = CONSOLE_WORDS.get(command, [command]) if program() == CONSOLE else [command]
    return f"{program()} {shlex.join([*words, *arguments])}"


def started_command_line() -> str:
    """The command of this process as the user gave it."""
    return f"{program()} {shlex.join(sys.argv[1:])}"
