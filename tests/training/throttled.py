"""`python -m training` with a recipe whose updates take seconds until the file named by HURRY exists, so that a test
can kill machines and start them again meanwhile. Each process writes a line per update, with its rank and the number of
processes, to the file named by UPDATES."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch

from tests.training.group_runs import plain
from training import __main__ as command_line
from training import output_folder
from training.config import recipes
from training.config.run_config import LoopConfig
from training.loop import trainer as loops

UPDATE_S = 3.0
EPOCHS = 10  # of seven updates


def throttle() -> None:
    original, hurry, updates = loops.Trainer._tick, Path(os.environ["HURRY"]), Path(os.environ["UPDATES"])

    def tick(trainer: loops.Trainer) -> None:
        with updates.open("a") as lines:
            lines.write(f"{trainer.progress.update} {trainer.workers.rank} {trainer.workers.count}\n")
        until = time.monotonic() + UPDATE_S
        while not hurry.exists() and time.monotonic() < until:
            time.sleep(0.02)
        original(trainer)

    loops.Trainer._tick = tick  # type: ignore[method-assign]


if __name__ == "__main__":
    torch.set_num_threads(1)
    recipes.TRANSLATORS["tiny"] = recipes.Recipe("", plain(loop=LoopConfig(max_epochs=EPOCHS, ema_decay=0.9)))
    loops.SNAPSHOT_EVERY_S = 0.0
    output_folder.draw_curves = lambda metrics, path: path.write_bytes(b"no picture")  # type: ignore[assignment]
    throttle()
    command_line.MODULE = "tests.training.throttled"
    sys.exit(command_line.main())
