"""python -m training COMMAND: what there is to say stands in `training.commands`; here errors become exit codes."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections.abc import Sequence

import torch

from training.commands import COMMANDS
from training.errors import TrainingError


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m training", description="Make models from text files.")
    commands = top.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """0, or 2 with one sentence on standard error for what the user can mend; 130 when interrupted."""
    arguments = parser().parse_args(argv)
    try:
        result = arguments.run(arguments)
    except TrainingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(
            "error: The GPU has too little memory for this recipe; use a smaller one or --device cpu.", file=sys.stderr
        )
        return 2
    except OSError as error:
        full = error.errno == errno.ENOSPC or "No space left" in str(error)
        way_out = "the disk is full; free some space, then go on with --resume, or anew if nothing was saved"
        reason = way_out if full else str(error)
        print(f"error: The run cannot go on: {reason}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped. Go on with --resume where it had saved.", file=sys.stderr)
        return 130
    if result is not None:
        print(json.dumps(result, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
