"""The console command `parlance`, which is `python -m parlance` too: it serves with `app`, and trains, translates and
imports with the commands of `training`."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from parlance import __version__

SIGNALLED = 128  # and the number of the signal is the exit status of a command that one has ended
ENDED_BY_PEOPLE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TRAINING_COMMANDS = {
    "train translator": ("train a translator from pairs of sentences", ["translator"]),
    "train lyrics": ("train a character model from a text", ["lyrics"]),
    "import": ("make a checkpoint of a Marian model: a name on the Hugging Face hub or a folder", ["import-marian"]),
    "translate": ("translate files or standard input, line by line", ["translate"]),
    "evaluate": ("score a model, or compare several", ["evaluate"]),
    "export": ("write a checkpoint for transformers, CTranslate2 or ONNX", ["export"]),
    "distil": ("have a translator translate text for another one to learn from", ["distil"]),
    "inspect-corpus": ("say which pairs of a corpus training would leave out", ["inspect-corpus"]),
    "recipes": ("list the recipes and their options", ["recipes"]),
}
"""Words of `parlance` -> what they do, and the words of `python -m training`."""
HELP = """\
usage: parlance COMMAND [options]

  serve [options]          serve the checkpoints of a folder over HTTP; those of Parlance itself where there are none
{}
  keys                     make, list and remove API keys

parlance COMMAND --help explains a command; parlance --version says which version this is."""

HELP_OF_TRAIN = """\
usage: parlance train MODEL [options]

{}

parlance train MODEL --help explains the options."""
HELP_OPTIONS = ("-h", "--help")
IMPORT_PROCESS = "import-process"  # the command `import` in the process that `watched_import` starts
SERVE_ELSEWHERE = ("run", "start", "up", "web", "api")  # other programs' words for `serve`


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command; 2 after a mistake in the arguments, with a sentence on standard error."""
    if arguments is None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a command takes over, Ctrl-C ends without a traceback
    try:
        return run_command(list(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # the reader of the output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the interpreter's exit
        return 128 + signal.SIGPIPE


def run_command(given: list[str]) -> int:
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    if not given or given[0] in HELP_OPTIONS:
        print(HELP.format(command_lines()))
        return 0
    if given[0] in ("-V", "--version", "version"):
        print(f"parlance {__version__} (Python {platform.python_version()})")
        return 0
    command, rest = given[0], given[1:]
    if command == "serve":
        from app.settings import mistakes_end_with_status_2

        with mistakes_end_with_status_2():
            return serve(rest)
    if command == "keys":
        from app.keys import main as keys  # each command imports its own half: PyTorch takes seconds

        return keys(rest, "parlance keys")
    if command == "import":
        return watched_import(rest)
    if command == IMPORT_PROCESS:
        command = "import"
    if command == "train":
        if rest[:1] and rest[0] in HELP_OPTIONS:
            print(HELP_OF_TRAIN.format(command_lines("train ")))
            return 0
        command, rest = f"train {rest[0]}" if rest else "train", rest[1:]
    if command not in TRAINING_COMMANDS:
        return refuse(command)
    from training import STARTED
    from training.__main__ import main as train

    return train([*TRAINING_COMMANDS[command][1], *rest], STARTED)


def command_lines(start: str = "") -> str:
    """A line of help for each command of `training` whose words begin so."""
    commands = {words: text for words, (text, _) in TRAINING_COMMANDS.items() if words.startswith(start)}
    return "\n".join(f"  {words:<24} {text}" for words, text in commands.items())


def refuse(command: str) -> int:
    """Says what the user may have meant instead of a command that there is not."""
    kinds = [words.removeprefix("train ") for words in TRAINING_COMMANDS if words.startswith("train ")]
    if command.partition(" ")[0] == "train":
        given = command.partition(" ")[2]
        nearest = get_close_matches(given, kinds, 1, 0.6)
        wrong = f"{given} is no model to train; did you mean {nearest[0]}? " if nearest else ""
        listed = ", ".join(f"parlance train {kind}" for kind in kinds)
        print(f"error: {wrong}Say what to train: {listed}.", file=sys.stderr)
        return 2
    meant = meant_command(command)
    suggestion = f"; did you mean parlance {meant}?" if meant else ";"
    print(f"error: {command} is no command{suggestion} parlance --help lists them.", file=sys.stderr)
    return 2


def meant_command(command: str) -> str:
    """What another program's command, one of `python -m training` or a misspelt one is called here; "" for none."""
    from training.cli.commands import FOREIGN_COMMANDS
    from training.errors import CONSOLE_WORDS

    spelled = command.replace("_", "-").lower()
    if spelled in SERVE_ELSEWHERE:
        return "serve"
    if spelled in FOREIGN_COMMANDS or spelled in CONSOLE_WORDS:
        words = FOREIGN_COMMANDS.get(spelled, spelled).split()
        here = " ".join(" ".join(CONSOLE_WORDS.get(word, [word])) for word in words)
        return here.replace(" or ", " or parlance ")
    return "".join(get_close_matches(spelled, ["serve", "train", "keys", *TRAINING_COMMANDS], 1, 0.5))


def serve(arguments: Sequence[str]) -> int:
    """Serves as `python -m app` does, after it has fetched the models that are named and missing, and copied those that
    come with this project into a folder without checkpoints."""
    from app.settings import SettingsParser

    parser = SettingsParser("parlance serve", "%(prog)s [options] [MODEL ...]")
    text = "what --models takes: Helsinki-NLP/opus-mt-de-en, de-en, the address of a page on the hub, or a local folder"
    parser.add_argument("model", nargs="*", metavar="MODEL", help=text)
    parser.add_argument(
        "--demo",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="copy the models that come with Parlance into a folder without checkpoints; default: yes",
    )
    settings, given = parser.settings(arguments)
    if given.model:
        settings = settings.model_copy(update={"models": ",".join(given.model)})
    from app.__main__ import serve as serve_checkpoints
    from app.server import check_address

    check_address(settings.host, settings.port)  # before minutes of downloads or training
    if status := fetch_models(settings.models, settings.checkpoints):
        return status
    if given.demo and lacks_models(settings.checkpoints):
        from models.model_names import shipped_names

        command = [*shipped_names(), "--into", str(settings.checkpoints)]
        if status := watched_import(command, stdout=subprocess.DEVNULL):
            return status
    print("\n".join(address_lines(settings.host, settings.port)))
    print("".join(f"\n{line}" for line in demo_lines(settings.checkpoints, settings.models)), flush=True)
    serve_checkpoints(settings)
    return 0


def address_lines(host: str, port: int) -> list[str]:
    """Where the server will be found. Every address (0.0.0.0, ::) is none that a browser opens: this machine is shown
    as its loopback address."""
    every = host in ("0.0.0.0", "::")  # noqa: S104 (binds nothing)
    shown = "127.0.0.1" if every else f"[{host}]" if ":" in host else host
    lines = ["", f"Parlance starts on http://{shown}:{port}  (stop with Ctrl-C)"]
    for what, path in (("the page", ""), ("the API to try things in", "/docs"), ("is it ready?", "/health/ready")):
        lines.append(f"  {what:<26} http://{shown}:{port}{path}")
    if every:
        lines.append(f"  {'from other machines':<26} http://NAME:{port}, where NAME is the name or address of this one")
    return lines


def demo_lines(checkpoints: Path, models: str = "") -> list[str]:
    """For each model that comes with this project and will be served: what it knows, and how to serve others."""
    from models.checkpoint import CheckpointError, read_demo_card
    from models.model_names import checkpoint_folder, split_names

    named = [checkpoint_folder(name, checkpoints) for name in split_names(models)]
    folders = [folder for folder in named if folder] or sorted(checkpoints.glob("*/"))
    lines = []
    for folder in folders:
        with contextlib.suppress(CheckpointError):
            if demo := read_demo_card(folder):
                lines += [f"{folder.name} comes with Parlance. {demo.summary}", f"  {demo.way_out}"]
    return [*lines, ""] if lines else []


def fetch_models(models: str, checkpoints: Path) -> int:
    """Imports the models that are not among the checkpoints, and says which are others than their name on the hub.
    Without one that cannot be had, whose error has been printed, the others are served, and the server is not ready;
    returns the exit status of an interrupt, or else 0."""
    from models.checkpoint import CheckpointError, read_config
    from models.imported_folder import stands_in
    from models.model_names import checkpoint_folder, split_names

    folders = {name: checkpoint_folder(name, checkpoints) for name in split_names(models)}
    for name, folder in folders.items():
        with contextlib.suppress(CheckpointError):
            if folder is not None and (sentence := stands_in(name, folder, read_config(folder))) is not None:
                print(sentence, file=sys.stderr, flush=True)
    if not (missing := [name for name, folder in folders.items() if folder is None]):
        return 0
    if checkpoints.is_dir() and not os.access(checkpoints, os.W_OK):
        print(f"{checkpoints} cannot be written: {', '.join(missing)} is not fetched.", file=sys.stderr, flush=True)
        return 0
    status = watched_import([*missing, "--into", str(checkpoints)], stdout=subprocess.DEVNULL)
    if status > SIGNALLED:
        return status
    if status:
        way = "start it again to try once more" if status == os.EX_TEMPFAIL else "start it again with another name"
        print(f"Parlance is not ready without it, and serves the others; {way}.", file=sys.stderr, flush=True)
    return 0


def watched_import(arguments: Sequence[str], stdout: int | None = None) -> int:
    """Runs `import` in a process of its own, which a hostile file may end and whose memory goes with it. Returns its
    exit status, 2 where the system has ended it."""
    status = run_to_end([sys.executable, "-m", "parlance", IMPORT_PROCESS, *arguments], stdout=stdout)
    if status <= SIGNALLED or status - SIGNALLED in ENDED_BY_PEOPLE:
        return status
    from models.child_process import end_in_words
    from models.imported_folder import clear_leftovers

    place = argparse.ArgumentParser(add_help=False)
    place.add_argument("--into", type=Path, default=Path("checkpoints"))
    clear_leftovers(place.parse_known_args(arguments)[0].into)
    how = end_in_words(SIGNALLED - status)
    print(f"error: The import was ended ({how}), as a damaged or hostile file of a model can do.", file=sys.stderr)
    return 2


def run_to_end(command: Sequence[str], stdout: int | None = None) -> int:
    """The exit status of a child process, 128 + N if signal N ended it. Signals that end this process go to the child
    and its children, which would otherwise go on alone; their own process group spares them a second Ctrl-C."""
    child = subprocess.Popen(command, stdout=stdout, process_group=0)
    handlers = {
        number: signal.signal(number, lambda number, _: os.killpg(child.pid, number))
        for number in ENDED_BY_PEOPLE
        if signal.getsignal(number) is not signal.SIG_IGN  # as `nohup` leaves SIGHUP
    }
    try:
        status = child.wait()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status


def lacks_models(checkpoints: Path) -> bool:
    """Whether there is no checkpoint in the folder."""
    return not any(checkpoints.glob("*/config.json"))


if __name__ == "__main__":
    sys.exit(main())
