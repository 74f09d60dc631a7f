"""Errors that end a command with one sentence, and the wording of such sentences.

A sentence that contains a command spells it as the user started training, `python -m training` or `parlance`, so that
it can be copied."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


def pluralize(number: float, noun: str) -> str:
    """ "1 epoch", "2,000 epochs", "0.5 minutes": for nouns whose plural ends in s."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


class TrainingError(ValueError):
    """An error that the user can fix: the message names the file or option, the problem, and the remedy. exit_code: of
    the command that it ends."""

    exit_code = 2


CANNOT_START = "This cannot start"


MOST_LISTED, MOST_CHARACTERS = 50, 500


class CannotStart(TrainingError):
    """All problems of a command's options, in one list, without the middle of one that quotes a giant value. refusal:
    the words before the list."""

    def __init__(self, problems: Sequence[str], refusal: str = CANNOT_START) -> None:
        self.problems = tuple(p if len(p) <= MOST_CHARACTERS else f"{p[:200]} … {p[-200:]}" for p in problems)
        more = len(self.problems) - MOST_LISTED
        listed = "; ".join([*self.problems[:MOST_LISTED], *([f"and {more:,} more"] if more > 0 else [])])
        super().__init__(f"{refusal}: {listed}" + ("" if listed.endswith("?") else "."))


def raise_all(problems: Iterable[str], refusal: str = CANNOT_START) -> None:
    """Raises CannotStart with every problem, if there are any. An empty string is no problem. refusal: as in
    `CannotStart`."""
    problems = [problem for problem in problems if problem]
    if problems:
        raise CannotStart(problems, refusal)


GO_ON, ANEW = "then go on with --resume, or anew if nothing was saved", "then begin anew"
DISK_FULL = f"the disk is full; free some space, {GO_ON}"
OS_ERROR_MEANINGS = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: f"the quota of this disk is used up; free some space, {GO_ON}",
    errno.EACCES: "{name} may not be used: permission denied; change its rights or choose another place",
    errno.EPERM: "{name} may not be used: permission denied; change its rights or choose another place",
    errno.EROFS: "{name} lies on a disk that is read-only; choose another place",
    errno.EISDIR: "{name} is a folder, and a file is needed",
    errno.ENOTDIR: "{name} lies inside of something that is a file, not a folder",
    errno.EEXIST: "{name} is in the way: it is a file or a broken link",
    errno.ENOENT: "{name} does not exist",
    errno.ENAMETOOLONG: "{name} is too long a name for this disk",
    errno.ELOOP: "{name} is a link that leads back to itself",
    errno.EMFILE: "too many files are open; allow more with `ulimit -n`",
    errno.ENFILE: "too many files are open on this machine; close some programs",
    errno.ENOMEM: "the machine has too little memory",
    errno.EIO: "{name} could not be read or written: the disk reports an error of its own",
}


def os_error_reason(error: OSError, *, resumable: bool = True) -> str:
    """The reason in words, without errno and full stop, to end a sentence. resumable: by --resume."""
    if not resumable:
        return os_error_reason(error).replace(GO_ON, ANEW)
    if error.errno is None:  # from a library that keeps only the system's words
        return DISK_FULL if "No space left" in str(error) else str(error).rstrip(".")
    name = error.filename2 or error.filename or "a file of this run"
    name = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    words = (os.strerror(error.errno) if error.errno > 0 else str(error.strerror)).lower()
    return OS_ERROR_MEANINGS.get(error.errno, f"{{name}}: {words}").replace("{name}", name)


UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def unwritable_reason(error: OSError) -> str | None:
    """Why a folder cannot be written, such as "disk full"; None for another error."""
    number = errno.ENOSPC if error.errno is None and "No space left" in str(error) else error.errno
    if number not in UNWRITABLE:
        return None
    return "disk full" if number == errno.ENOSPC else os.strerror(number).lower()


MODULE = "python -m training"
CONSOLE = "parlance"
CONSOLE_WORDS = {
    "translator": ["train", "translator"],
    "lyrics": ["train", "lyrics"],
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
