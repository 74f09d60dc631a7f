"""python -m training COMMAND: runs a command of `training.cli` and turns errors into exit codes."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr

import torch

from training.cli.commands import COMMANDS
from training.distributed import torchrun
from training.distributed.process_group import Workers, join_group
from training.distributed.torchrun import launch_processes
from training.distributed.watchdog import Terminated, is_peer_failure
from training.errors import TrainingError, os_error_reason

MODULE = "training"
NO_MEMORY = "error: This machine has too little memory for this; a smaller recipe, batch or corpus needs less."
ALLOCATOR = ("DefaultCPUAllocator", "not enough memory")  # in PyTorch's out-of-memory messages, on Linux and on Windows
SHARED = ("translator", "lyrics")  # commands that torchrun can run in several processes


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m training", description="Make models from text files.")
    commands = top.add_subparsers(dest="command", required=True)
    for name, (text, add_options, run) in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=run)
        add_options(command)
    return top


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the arguments; in a process group only rank 0 prints usage errors."""
    with nullcontext() if torchrun.environment_rank() == 0 else redirect_stderr(io.StringIO()):
        top = parser()
        arguments, unknown = top.parse_known_args(argv)
        if unknown and "overrides" not in arguments:
            top.error(f"unrecognized arguments: {' '.join(unknown)}")
        arguments.unknown = unknown  # reported together with all other problems
        return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0; 2 after a user's mistake, with a sentence on stderr; 130 if interrupted; 1 if a peer died."""
    arguments = parse(argv)
    if arguments.command not in SHARED and torchrun.environment_rank() != 0:
        return 0
    workers = arguments.workers = Workers()
    try:
        if arguments.command in SHARED:
            if arguments.processes > 1 and not torchrun.launch_name():
                return launch_processes(arguments.processes, MODULE, sys.argv[1:] if argv is None else argv)
            workers = arguments.workers = join_group()
            arguments.resume = workers.on_rank_0(
                lambda: arguments.resume or torchrun.restarted_by_torchrun(arguments.out)
            )
        result = arguments.run(arguments)
    except TrainingError as error:
        workers.print_error(f"error: {error}")
        return 2
    except MemoryError:
        workers.print_error(NO_MEMORY)
        return 2
    except torch.OutOfMemoryError:
        workers.print_error("error: The GPU has too little memory for this recipe; use a smaller one or --device cpu.")
        return 2
    except OSError as error:
        workers.print_error(f"error: The run cannot go on: {os_error_reason(error)}.")
        return 2
    except KeyboardInterrupt:
        shared = arguments.command in SHARED
        workers.print_error("Stopped. Go on with --resume where it had saved." if shared else "Stopped.")
        return 130
    except (Terminated, RuntimeError) as error:
        if any(sign in str(error) for sign in ALLOCATOR):
            workers.print_error(NO_MEMORY)
            return 2
        if not is_peer_failure(error):
            raise
        workers.exit_after_peer_failure()
        return 1
    if workers.writes and result is not None:
        print(json.dumps(result, ensure_ascii=False))
    workers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
