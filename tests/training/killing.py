"""Runs that are killed (SIGKILL) at given points and go on: python -m tests.training.killing KIND OUT[:POINT,...]...

A point is a number of a moment at which a kill could do harm: before a step, before and after a file is forced to the
disk or renamed, in the middle of writing one. Each point kills one process, counted from that process's start; behind
the last the run goes on to its end. Prints for every OUT how many moments its last process has seen, and how many were
killed. Every process is a fork of this one, so that PyTorch is imported once.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.training.runs import sing, translate
from tests.training.small import translator
from training import output_folder, snapshot
from training.config.run_config import LoopConfig, OptimizerConfig, TokenizerConfig
from training.loop import trainer as loops

FALLING = OptimizerConfig(name="adamw", learning_rate=1e-2, schedule="cosine", warmup_updates=3, weight_decay=0.1)
MUON = OptimizerConfig(name="muon", learning_rate=1e-2, schedule="trapezoid", warmup_updates=3)
ENDING = {"patience": 2, "cooldown": 0.3, "average_best": 3, "ema_decay": 0.9}
KINDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "translator": (
        translate,
        {"optimizer": FALLING, "loop": LoopConfig(**ENDING, validate_every_updates=5, gradient_accumulation=2)},
    ),
    "every dropout": (
        translate,
        {
            "tokenizer": TokenizerConfig(vocab_size=40),
            "network": {**translator().network, "tied": "all", "attention_dropout": 0.1},
            "tokens_per_batch": 80,
            "optimizer": MUON,
            "loop": LoopConfig(**ENDING, choose_by="bleu"),  # type: ignore[arg-type]
        },
    ),
    "lyricist": (sing, {"optimizer": MUON, "loop": LoopConfig(**ENDING, precision="fp16", validate_every_epochs=2)}),
}
SNAPSHOT_EVERY = 7  # reads the clock, once per update


class Moments:
    def __init__(self, fatal: int | None) -> None:
        self.seen, self.fatal = 0, fatal

    def passed(self) -> None:
        self.seen += 1
        if self.seen == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str, *, before: bool = True, after: bool = True) -> None:
        original = getattr(owner, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            if before:
                self.passed()
            result = original(*arguments, **options)
            if after:
                self.passed()
            return result

        setattr(owner, name, wrapped)

    def within(self, owner: Any, name: str) -> None:
        """Midway through writing a file, with half of it on the disk."""
        original = getattr(owner, name)

        def wrapped(state: Any, file: Any) -> None:
            self.seen += 1
            original(state, file)
            if self.seen == self.fatal:
                file.flush()
                file.truncate(file.tell() // 2)
                os.kill(os.getpid(), signal.SIGKILL)

        setattr(owner, name, wrapped)


def run(kind: str, out: Path, fatal: int | None) -> int:
    """Runs in a process of its own; returns the moments it passed, or 0 if it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        moments = Moments(fatal)
        moments.around(loops.Trainer, "_step", after=False)
        moments.around(snapshot.os, "fsync")
        moments.around(Path, "replace")
        moments.within(snapshot.torch, "save")
        ticks = itertools.count()
        loops.time = SimpleNamespace(monotonic=lambda: float(next(ticks)))  # type: ignore[assignment]
        loops.SNAPSHOT_EVERY_S = SNAPSHOT_EVERY
        output_folder.draw_curves = lambda metrics, path: path.write_bytes(b"")  # type: ignore[assignment]
        train, options = KINDS[kind]
        train(out, 6, resume=snapshot.exists(out), **options)
        os.write(writer, str(moments.seen).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        seen = int(answer.read() or 0)
    assert (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL) if seen == 0 else status == 0, status
    return seen


def main() -> None:
    kind, *runs = sys.argv[1:]
    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)])  # the first optimizer imports half of PyTorch, which forks then need not
    for given in runs:
        out, _, points = given.partition(":")
        kills = 0
        for point in filter(None, points.split(",")):
            if run(kind, Path(out), int(point)):
                break  # it was done before
            kills += 1
        print(run(kind, Path(out), None), kills)


if __name__ == "__main__":
    main()
