"""python -m training COMMAND: runs a command of `training.cli` and turns errors into exit codes."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path
from types import FrameType
from typing import NoReturn

import torch

from models.backends.native.build import CHOICE, UnavailableVariant, runnable
from models.backends.native.cpu import cpu_flags
from training import STARTED, snapshot
from training.cli.commands import COMMANDS, command_suggestion, functions_of, unknown_options
from training.distributed import torchrun
from training.distributed.process_group import Workers, join_group
from training.distributed.torchrun import launch_processes
from training.distributed.watchdog import Stopped, Terminated, is_peer_failure
from training.errors import CANNOT_START, TrainingError, command_line, os_error_reason, pluralize, program, raise_all

MODULE = "training"  # what processes of a group run
NO_MEMORY = "error: This machine has too little memory for this; a smaller recipe, batch or corpus needs less."
ALLOCATOR = ("DefaultCPUAllocator", "not enough memory", "Storage size calculation overflowed")  # of PyTorch
SHARED = ("translator", "lyrics")  # commands that torchrun can run in several processes


class OneSentenceParser(argparse.ArgumentParser):
    """Reports a mistake in one sentence, without the usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message.rstrip('.')}; see {self.prog} --help\n")


def parser(only: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """only: the commands whose options are added; importing their modules takes a second."""
    top = OneSentenceParser(prog=program(), description="Make models from text files.")
    commands = top.add_subparsers(dest="command", required=True)
    for name, (text, _) in COMMANDS.items():
        command = commands.add_parser(name, help=text, prog=command_line(name))
        if name not in only:
            continue
        add_options, run = functions_of(name)
        add_options(command)
        known = [option for action in command._actions for option in action.option_strings]
        command.set_defaults(run=run, known=known, refusal=command.get_default("refusal") or CANNOT_START)
    return top


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the arguments; in a process group only rank 0 prints usage errors."""
    with nullcontext() if torchrun.environment_rank() == 0 else redirect_stderr(io.StringIO()):
        given = sys.argv[1:] if argv is None else argv
        top = parser(given[:1])
        if given and not given[0].startswith("-") and given[0] not in COMMANDS:
            top.error(f"{given[0]} is no command{command_suggestion(given[0], list(COMMANDS))}")
        arguments, unknown = top.parse_known_args(argv)
        many = next((name for name in ("files", "folders") if name in arguments), None)
        if many and not any(argument.startswith("-") for argument in unknown):
            # argparse finds no positional arguments after an option that follows the first ones
            setattr(arguments, many, [*getattr(arguments, many), *map(Path, unknown)])
            unknown = []
        arguments.unknown = unknown
        return arguments


def main(argv: Sequence[str] | None = None, started: float | None = None) -> int:
    """Returns 0; 2 after a user's mistake, with a sentence on stderr; 130 or 143 after SIGINT or SIGTERM; 1 if a peer
    died."""
    with signals_raise():
        return run_command(argv, time.monotonic() if started is None else started)


@contextmanager
def signals_raise() -> Iterator[None]:
    """SIGINT and SIGTERM raise inside, where nobody else handles them: temporary files go, and a sentence says what is
    left. Before and after it, in imports and in the interpreter's exit, they end the process without a traceback."""

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        raise Terminated

    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: on_sigterm}
    in_main = threading.current_thread() is threading.main_thread()
    ours = [number for number in handlers if in_main and signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def run_command(argv: Sequence[str] | None, started: float) -> int:
    """started: of the command, from when on a time limit counts."""
    arguments = parse(argv)
    arguments.started = started
    given = sys.argv[1:] if argv is None else list(argv)
    if arguments.command not in SHARED and torchrun.environment_rank() != 0:
        return 0
    arguments.workers = Workers()
    code = run_in_group(arguments, given)
    arguments.workers.exit(code)
    return code


def run_in_group(arguments: argparse.Namespace, given: Sequence[str]) -> int:
    """Runs the parsed command; the exit code. Leaves `arguments.workers` as the group that it has joined, if any."""
    workers: Workers = arguments.workers
    try:
        if choice := os.environ.get(CHOICE):  # now, and not in one of the command's processes after minutes of work
            runnable(choice, cpu_flags())
        if arguments.command in SHARED:
            if arguments.processes > 1 and not torchrun.launch_name():
                return launch_processes(arguments.processes, MODULE, given)
            workers = arguments.workers = join_group()
            arguments.resume = workers.on_rank_0(
                lambda: arguments.resume or torchrun.restarted_by_torchrun(arguments.out, workers.launches)
            )
        if "overrides" not in arguments:  # otherwise they are reported together with all other problems
            raise_all(unknown_options(arguments), arguments.refusal)
        result = arguments.run(arguments)
        sys.stdout.flush()
    except TrainingError as error:
        workers.print_error(f"error: {error}")
        return error.exit_code
    except UnavailableVariant as error:
        workers.print_error(f"error: {error}.")
        return 2
    except MemoryError:
        workers.print_error(NO_MEMORY)
        return 2
    except torch.OutOfMemoryError:
        workers.print_error("error: The GPU has too little memory for this recipe; use a smaller one or --device cpu.")
        return 2
    except BrokenPipeError:  # the reader of the output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the interpreter's exit
        return 128 + signal.SIGPIPE
    except OSError as error:
        resumable = "resume" in arguments and arguments.out is not None
        workers.print_error(f"error: The run cannot go on: {os_error_reason(error, resumable=resumable)}.")
        return 2
    except Stopped as stopped:
        code = 128 + stopped.number
        done = f"{pluralize(stopped.update, 'update')} ({pluralize(stopped.epoch, 'finished epoch')}) are saved"
        arguments.workers.print_error(f"Stopped: {done} in {arguments.out}. {way_on(given)}")
        return code
    except KeyboardInterrupt:
        arguments.workers.print_error(stopped_sentence(arguments, given))
        return 130
    except (Terminated, RuntimeError) as error:
        if isinstance(error, Terminated) and workers.watchdog is None:
            arguments.workers.print_error(stopped_sentence(arguments, given))
            return 128 + signal.SIGTERM
        if any(sign in str(error) for sign in ALLOCATOR):
            workers.print_error(NO_MEMORY)
            return 2
        if not is_peer_failure(error):
            raise
        workers.exit_after_peer_failure()
        return 1
    if workers.writes and result is not None:
        print(json.dumps(result, ensure_ascii=False))
    workers.leave()
    return 0


def stopped_sentence(arguments: argparse.Namespace, given: Sequence[str]) -> str:
    """For a command that has been ended without a last snapshot."""
    if arguments.command not in SHARED:
        return "Stopped."
    if arguments.out is None or not snapshot.exists(arguments.out):
        return "Stopped; nothing had been saved yet."
    return f"Stopped. {arguments.out} holds the run up to its last snapshot. {way_on(given)}"


def way_on(given: Sequence[str]) -> str:
    """How to go on with the stopped run."""
    return f"Go on with: {command_line(*given, *([] if '--resume' in given else ['--resume']))}"


if __name__ == "__main__":
    sys.exit(main(started=STARTED))
