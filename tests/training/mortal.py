"""`python -m training` with recipes small enough for a test, one process of which dies where the environment says:
MORTAL_RANK kills itself at snapshot MORTAL_AT, counted from 1, of the first start."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import torch

from tests.training.small import lyricist, translator
from training import __main__ as command_line
from training import output_folder
from training.config import recipes
from training.loop import trainer as loops


def die_in_time() -> None:
    original, seen = loops.random_state, 0

    def states(device: torch.device) -> dict[str, Any]:
        """Every process says its part of every snapshot; here one of them dies where it should."""
        nonlocal seen
        seen += 1
        if seen == int(os.environ["MORTAL_AT"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(device)

    first_start = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
    if first_start and os.environ.get("MORTAL_RANK") == os.environ["RANK"]:
        loops.random_state = states


if __name__ == "__main__":
    torch.set_num_threads(1)
    recipes.TRANSLATORS["tiny"] = recipes.Recipe("", translator())
    recipes.LYRICISTS["small"] = recipes.Recipe("", lyricist())
    loops.SNAPSHOT_EVERY_S = 0.0
    output_folder.draw_curves = lambda metrics, path: path.write_bytes(b"no picture")  # type: ignore[assignment]
    die_in_time()
    command_line.MODULE = "tests.training.mortal"
    sys.exit(command_line.main())
