"""The work of the processes of a group; each process imports this module."""

from __future__ import annotations

import contextlib
import io
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn

from tests.training.counting import STEP_BY_ONE, Counting
from tests.training.small import CPU, lyricist, pairs, text, translator
from training import output_folder, training_run
from training.config.run_config import LoopConfig, OptimizerConfig, TranslatorConfig
from training.distributed import process_group
from training.distributed.process_group import Workers, check_same_run
from training.loop import trainer as loops
from training.loop.tasks import ShardedTask
from training.loop.trainer import Trainer
from training.lyricist_run import train_lyricist
from training.report.progress_report import ProgressReport
from training.training_run import TrainingRun
from training.translator_run import train_translator


def plain(**changes: Any) -> TranslatorConfig:
    """Without dropout, so that only rounding can differ; and without Adam, which makes full steps of a gradient that
    is nothing but rounding, as that of the keys' bias is."""
    network = {**translator().network, "embedding_dropout": 0.0, "residual_dropout": 0.0}
    return translator(network=network, optimizer=OptimizerConfig(name="sgd", learning_rate=0.5), **changes)


def own_folder(workers: Workers, out: Path) -> Path:
    """A folder that is on no other machine."""
    return out if workers.writes else out / "of another machine"


def translate(workers: Workers, out: Path, config: TranslatorConfig, resume: bool = False) -> dict[str, Tensor]:
    """The weights that this process ends with."""
    seen = _watch_weights()
    output_folder.draw_curves = lambda metrics, path: path.write_bytes(b"no picture")  # type: ignore[assignment]
    train_translator(
        config,
        pairs(41),
        pairs(10, seed=1),
        TrainingRun(out=own_folder(workers, out), device=CPU, resume=resume, quiet=True, workers=workers),
    )
    assert workers.writes or not own_folder(workers, out).exists()
    return seen


def sing(workers: Workers, out: Path, changes: dict[str, Any], resume: bool = False) -> dict[str, Tensor]:
    seen = _watch_weights()
    output_folder.draw_curves = lambda metrics, path: path.write_bytes(b"no picture")  # type: ignore[assignment]
    train_lyricist(
        lyricist(**changes),
        text(300),
        TrainingRun(out=own_folder(workers, out), device=CPU, resume=resume, quiet=True, workers=workers),
        origin="made up",
    )
    return seen


def _watch_weights() -> dict[str, Tensor]:
    """The last weights of the next loop in this process, not its best."""
    seen: dict[str, Tensor] = {}

    class Watched(Trainer):
        def run(self, *, resume: bool = False) -> Any:
            outcome = super().run(resume=resume)
            seen.update({name: t.detach().clone() for name, t in self.network.state_dict().items()})
            return outcome

    training_run.Trainer = Watched  # type: ignore[misc]
    return seen


class TwoPasses:
    """A loss that goes through its network twice, shares a table, and leaves some parameters alone."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        self.network = nn.ModuleDict({"table": nn.Embedding(7, 4), "through": nn.Linear(4, 4), "left": nn.Linear(2, 2)})
        self.network["frozen"] = nn.Linear(2, 2).requires_grad_(False)
        self.seen: list[int] = []

    def part(self, batch: Tensor, rank: int, count: int) -> Tensor | None:
        return batch[rank::count] if len(batch[rank::count]) else None

    def batches(self, epoch: int) -> list[Tensor]:
        return []

    def validate(self) -> float | None:
        return None

    def loss(self, batch: Tensor) -> tuple[Tensor, int]:
        """Of rows [B, 3]; 0 counts for nothing."""
        table, real = self.network["table"], batch > 0
        once, twice = self.network["through"](table(batch)), self.network["through"](table(batch) * 1.1)
        each = (once @ table.weight.T).square().mean(-1) + (once - twice).square().mean(-1)
        return each[real].mean(), int(real.sum())

    def carried(self) -> dict[str, Tensor]:
        return {}

    def restore(self, carried: dict[str, Tensor]) -> None:
        assert not carried


def gradients(workers: Workers, updates: list[list[Tensor]]) -> list[dict[str, Tensor | None]]:
    """Of the summed loss over each update's batches, divided by the number of processes."""
    task = TwoPasses()
    sharded = ShardedTask(task, workers, CPU) if workers.count > 1 else task
    results = []
    for batches in updates:
        task.network.zero_grad(set_to_none=True)
        for place, batch in enumerate(batches):
            workers.synchronize = place == len(batches) - 1
            loss, tokens = sharded.loss(batch)
            (loss * tokens).backward()
        results.append({n: None if p.grad is None else p.grad.clone() for n, p in task.network.named_parameters()})
    return results


class Sharable(Counting):
    def part(self, batch: int, rank: int, count: int) -> int:
        return batch


def count_up(workers: Workers, batches: int, skew_s: float, max_minutes: float | None, broken_rank: int) -> list[float]:
    """A run of updates of one each, on clocks that differ by `skew_s`; [updates, seconds]. The loss of one rank is no
    number from update 3 on."""
    task = Sharable(batches=batches)
    task.after_loss = lambda: _spoil(task) if workers.rank == broken_rank else None
    clock = itertools.count(1000.0 + skew_s * workers.rank, 1.0 + workers.rank)
    loops.time = SimpleNamespace(monotonic=lambda: next(clock))  # type: ignore[assignment]
    loop = Trainer(
        ShardedTask(task, workers, CPU) if workers.count > 1 else task,  # type: ignore[arg-type]
        STEP_BY_ONE,
        LoopConfig(precision="fp32", max_epochs=1, max_minutes=max_minutes),
        folder=None,
        report=ProgressReport(None, "", quiet=True),
        device=CPU,
        workers=workers,
    )
    outcome = loop.run()
    return [outcome.progress.update, outcome.progress.seconds]


def _spoil(task: Counting) -> None:
    if task.network.weight.item() >= 2:
        task.network.weight.data.fill_(float("nan"))


def disagree(workers: Workers) -> None:
    check_same_run(workers, "one corpus" if workers.rank != 1 else "another")


def draw(workers: Workers) -> Tensor:
    """Random numbers that dropout would use."""
    torch.manual_seed(1)
    process_group.seed_rank(1, workers.rank)
    return torch.rand(4)


def speak(workers: Workers) -> str:
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        workers.note("On the way.")
        workers.print_error("error: The end.")
    return stderr.getvalue()
