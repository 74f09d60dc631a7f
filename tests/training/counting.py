"""A task that counts, and the loop around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests.training.small import CPU
from training.config.run_config import LoopConfig, OptimizerConfig
from training.distributed.process_group import Workers
from training.loop.trainer import Trainer
from training.progress import Validator
from training.report.progress_report import ProgressReport


class Counting:
    """A task with one weight, the number of updates, and scripted validation losses."""

    def __init__(self, validations: Sequence[float | None] = (), batches: int = 1) -> None:
        self.network = nn.Linear(1, 1, bias=False)
        self.network.weight.data.zero_()
        self.validations, self.count = iter(validations), batches
        self.seen: list[float] = []
        self.after_loss: Callable[[], None] = lambda: None
        self.state = torch.zeros(1)

    def batches(self, epoch: int) -> list[int]:
        return list(range(self.count))

    def loss(self, batch: int) -> tuple[Tensor, int]:
        assert self.network.training
        self.after_loss()
        self.state = self.state + 1
        return -self.network.weight.sum(), 1

    def validate(self) -> float | None:
        assert not self.network.training
        assert torch.is_inference_mode_enabled()
        self.seen.append(self.network.weight.item())
        return next(self.validations, None)

    def carried(self) -> dict[str, Tensor]:
        return {"state": self.state}

    def restore(self, carried: dict[str, Tensor]) -> None:
        self.state = carried["state"]


STEP_BY_ONE = OptimizerConfig(name="sgd", learning_rate=1.0, clip_norm=0.0)


def looping(
    task: Any,
    folder: Path | None = None,
    optimizer: OptimizerConfig = STEP_BY_ONE,
    *,
    validator: Validator | None = None,
    workers: Workers | None = None,
    **options: Any,
) -> Trainer:
    config = LoopConfig(**{"precision": "fp32", **options})
    report = ProgressReport(folder, "", quiet=True)
    parts: dict[str, Any] = {"validator": validator, "workers": workers}
    return Trainer(task, optimizer, config, folder=folder, report=report, device=CPU, **parts)
